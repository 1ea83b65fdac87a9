// Package archive moves data of old final transactions from the ledger to files, and old requests
// about reserved nonces.
//
// A file holds one JSON object per line, compressed with gzip. It is written, flushed to disk, read
// back and compared before anything that it holds is removed from the ledger:
//
//  1. NAME.ndjson.gz.part is written, flushed and read back.
//  2. NAME.removing is written: the file's checksum, and the kind of data to remove.
//  3. NAME.ndjson.gz.part is renamed to NAME.ndjson.gz.
//  4. The rows in NAME.ndjson.gz are removed from the ledger, a few at a time.
//  5. NAME.removing is removed.
//
// After a crash the next run in the same folder continues with step 4 where NAME.removing and its
// file exist, and deletes the leftovers of steps 1 and 2. A row is removed only at the version of
// the file. One process at a time works, under a lease of the ledger, which is renewed while files
// are read back; a removal under an older lease does nothing.
//
// fencepost-ledger.json names the ledger of a folder. A run for another one is refused: it would
// take the leftovers for its own.
package archive
