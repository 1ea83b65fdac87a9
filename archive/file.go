package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The endings of file names.
const (
	dataEnding = ".ndjson.gz"
	planEnding = ".removing"
	partEnding = ".part"
)

// ErrOtherLedger is returned for a folder with the archive of another ledger.
var ErrOtherLedger = errors.New("the folder is the archive of another ledger")

// manifestName is the file that names the ledger whose archive is in a folder.
const manifestName = "fencepost-ledger.json"

// manifest is the content of that file.
type manifest struct {
	Ledger string `json:"ledger"`
}

// maxLine bounds a line that is read back: a transaction with the largest call data, as hex.
const maxLine = 64 << 20

// plan describes the removal that follows a complete file.
type plan struct {
	Lines    int    `json:"transactions"` // the name of earlier programs
	Whole    bool   `json:"whole"`
	Requests bool   `json:"requests,omitempty"` // the lines are requests about reserved nonces
	MaxXid   uint64 `json:"max_xid,string"`
	SHA256   string `json:"sha256"` // of the compressed file
}

// writer writes a file.
type writer struct {
	name  string // of the complete file
	plan  plan
	file  *os.File
	bytes int64 // before compression
	sum   hash.Hash
	zip   *gzip.Writer
}

// claim makes a folder the archive of a ledger. It refuses one that is another ledger's: a run
// completes the removals of earlier runs that it finds, and deletes their incomplete files.
func claim(dir, ledger string) error {
	name := filepath.Join(dir, manifestName)
	text, err := json.Marshal(manifest{ledger})
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return claimed(dir, ledger)
	}
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return syncDir(dir)
}

// claimed compares the manifest of a folder with the ledger.
func claimed(dir, ledger string) error {
	name := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil || m.Ledger == "" {
		return fmt.Errorf("read manifest: %s names no ledger; if no other process writes it now, "+
			"delete it and run the command again", name)
	}
	if m.Ledger != ledger {
		return fmt.Errorf("%w: %s has ledger %s, and this one is %s; use another folder",
			ErrOtherLedger, dir, m.Ledger, ledger)
	}
	return nil
}

// create begins a file. Only its owner may read it: it holds the payloads of transactions.
func create(dir, name string, kind plan) (*writer, error) {
	w := &writer{name: filepath.Join(dir, name+dataEnding), plan: kind, sum: sha256.New()}
	var err error
	w.file, err = os.OpenFile(w.name+partEnding, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create file: %w", err)
	}
	w.zip = gzip.NewWriter(io.MultiWriter(&flusher{to: w.file}, w.sum))
	return w, nil
}

func (w *writer) add(line *store.ArchiveLine) error {
	if _, err := io.WriteString(w.zip, line.Line+"\n"); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	w.plan.Lines++
	w.bytes += int64(len(line.Line)) + 1
	w.plan.MaxXid = max(w.plan.MaxXid, line.Xid)
	return nil
}

// abandon deletes an incomplete file.
func (w *writer) abandon() {
	w.file.Close()
	os.Remove(w.name + partEnding)
}

// complete flushes the file to disk, reads it back, and gives it its name. It calls hold for each
// line that it reads back.
func (w *writer) complete(gate func(Point) error, hold func() error) error {
	part := w.name + partEnding
	if err := errors.Join(w.zip.Close(), w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	w.plan.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	if err := verify(part, w.plan, hold); err != nil {
		return err
	}
	if err := gate(AfterPart); err != nil {
		return err
	}
	if err := writePlan(planOf(w.name), w.plan); err != nil {
		return err
	}
	if err := gate(AfterPlan); err != nil {
		return err
	}
	if err := moved(part, w.name); err != nil {
		return err
	}
	return gate(AfterRename)
}

func planOf(name string) string { return strings.TrimSuffix(name, dataEnding) + planEnding }

func writePlan(name string, p plan) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	f, err := os.OpenFile(name+partEnding, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return moved(name+partEnding, name)
}

// moved renames a file so that the new name survives a crash.
func moved(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename file: %w", err)
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	return nil
}

// forget deletes the plan of a file whose rows are removed.
func forget(name string) error {
	if err := os.Remove(planOf(name)); err != nil {
		return fmt.Errorf("delete plan: %w", err)
	}
	return syncDir(filepath.Dir(name))
}

// verify reads a file back, and compares it with its plan. It calls hold for each line.
func verify(name string, p plan, hold func() error) error {
	sum, lines := sha256.New(), 0
	err := readVia(name, sum, func(row) error { lines++; return hold() })
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 || lines != p.Lines {
		return fmt.Errorf("file %s is damaged: %d lines instead of %d, checksum %s instead of %s; "+
			"nothing more was removed from the ledger", name, lines, p.Lines, got, p.SHA256)
	}
	return nil
}

// row is the transaction or the request of a line.
type row struct {
	tx      store.ArchiveTx
	request store.ArchiveRequest
}

// read passes the rows of a file to take, in order.
func read(name string, take func(row) error) error {
	return readVia(name, io.Discard, take)
}

func readVia(name string, sum io.Writer, take func(row) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	defer f.Close()
	raw := io.TeeReader(bufio.NewReader(f), sum)
	z, err := gzip.NewReader(raw)
	if err != nil {
		return fmt.Errorf("read file %s: %w", name, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	for lines.Scan() {
		one, err := parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("read file %s: %w", name, err)
		}
		if err := take(one); err != nil {
			return err
		}
	}
	if err := errors.Join(lines.Err(), z.Close()); err != nil {
		return fmt.Errorf("read file %s: %w", name, err)
	}
	if _, err := io.Copy(io.Discard, raw); err != nil { // so that the checksum is of all of it
		return fmt.Errorf("read file %s: %w", name, err)
	}
	return nil
}

// parse reads which row a line holds.
func parse(line []byte) (one row, err error) {
	var l struct {
		Transaction struct {
			ID      string `json:"tx_id"`
			Version int64  `json:"version"`
		} `json:"transaction"`
		Request *struct {
			No          int64     `json:"request_no"`
			Reservation string    `json:"reservation_id"`
			AppliedAt   time.Time `json:"applied_at"`
		} `json:"request"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return one, fmt.Errorf("line is not a JSON object of an archive: %w", err)
	}
	if r := l.Request; r != nil {
		one.request = store.ArchiveRequest{No: r.No, AppliedAt: r.AppliedAt}
		one.request.Reservation, err = txn.ParseTxID(r.Reservation)
		return one, err
	}
	one.tx.Version = l.Transaction.Version
	one.tx.ID, err = txn.ParseTxID(l.Transaction.ID)
	return one, err
}

// leftover is a complete file whose rows may not all be removed.
type leftover struct {
	name string
	plan plan
}

// leftovers returns the complete files of earlier runs with rows to remove, and deletes incomplete
// ones.
func leftovers(dir, names string) (list []leftover, err error) {
	parts, err := filepath.Glob(filepath.Join(escaped(dir), names+partEnding))
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, name := range parts {
		if err := os.Remove(name); err != nil {
			return nil, fmt.Errorf("delete incomplete file: %w", err)
		}
	}
	plans, err := filepath.Glob(filepath.Join(escaped(dir), names+planEnding))
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, name := range plans {
		data := strings.TrimSuffix(name, planEnding) + dataEnding
		if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("delete plan: %w", err)
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read plan: %w", err)
		}
		left := leftover{name: data}
		if err := json.Unmarshal(text, &left.plan); err != nil {
			return nil, fmt.Errorf("read plan %s: %w", name, err)
		}
		list = append(list, left)
	}
	return list, nil
}

// escaped is a folder in a pattern.
func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
