// Package chain connects to EVM chains.
package chain
