package devchain

import (
	"math/big"

	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
)

var defaultGasLimit = ethconfig.Defaults.Miner.GasCeil

const (
	cacheMB     = 16
	openFiles   = 64
	loopback    = "127.0.0.1"
	nodeName    = "devchain"
	journalFile = "pool.rlp"
)

func nodeConfig(o Options) *node.Config {
	c := node.DefaultConfig
	c.Name = nodeName
	c.DataDir = o.DataDir
	c.IPCPath = ""
	c.P2P = p2p.Config{NoDiscovery: true, NoDial: true}
	modules := []string{"eth", "net", "web3", "txpool"}
	if o.DevRPC {
		modules = append(modules, "debug", "dev")
	}
	c.HTTPHost = loopback
	c.HTTPPort = o.Port
	c.HTTPModules = modules
	c.WSHost = loopback
	c.WSPort = o.Port
	c.WSModules = modules
	c.WSOrigins = []string{"*"}
	c.Logger = gethLogger(o.Log)
	return &c
}

func ethConfig(o Options) *ethconfig.Config {
	c := ethconfig.Defaults
	c.NetworkId = o.ChainID
	c.Genesis = genesis(o)
	c.SyncMode = ethconfig.FullSync
	c.Miner.GasCeil = o.GasLimit
	c.TxPool.NoLocals = true
	// The defaults reserve gigabytes.
	c.DatabaseCache, c.DatabaseHandles = cacheMB, openFiles
	c.TrieCleanCache = cacheMB
	c.TrieDirtyCache = cacheMB
	c.SnapshotCache = 0
	c.LogNoHistory = true // searching logs without an index is fast enough here
	c.StateScheme = rawdb.HashScheme
	c.NoPruning = o.DataDir != "" // write each block's state to disk at once
	return &c
}

// genesis must depend on the options only, because it identifies a kept chain.
func genesis(o Options) *core.Genesis {
	alloc := core.SystemContractAllocs()
	delete(alloc, params.BeaconRootsAddress)
	delete(alloc, params.HistoryStorageAddress)
	for i := range o.Accounts {
		alloc[Address(i)] = types.Account{Balance: o.Balance}
	}
	return &core.Genesis{
		Config:   chainConfig(o.ChainID),
		Alloc:    alloc,
		GasLimit: o.GasLimit,
		// A genesis block does not contain its chain id.
		ExtraData:  new(big.Int).SetUint64(o.ChainID).Bytes(),
		BaseFee:    big.NewInt(params.InitialBaseFee),
		Difficulty: new(big.Int),
	}
}

// chainConfig has mainnet's rules up to Osaka from the first block. Later forks are off, so that no
// contract works only here.
func chainConfig(id uint64) *params.ChainConfig {
	c := *params.AllDevChainProtocolChanges
	c.ChainID = new(big.Int).SetUint64(id)
	c.BogotaTime = nil
	return &c
}
