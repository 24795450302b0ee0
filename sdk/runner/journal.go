package runner

import (
	"bufio"
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Journal remembers on disk which claims a worker holds, so that a worker started after a crash can say
// what became of them. A claim is written before it is asked for and removed once its result has been
// answered. The file holds claim keys, which are worth nothing without the executor's bearer, and the few
// results that could not be delivered.
//
// One process at a time uses a journal, and one executor: give each its own directory.
type Journal struct {
	path string
	lock *os.File

	mu      sync.Mutex
	file    *os.File
	size    int64
	base    int64 // what the size was after the last rewrite
	written int   // lines written since the journal was opened
	live    map[string]entry
	broken  error // set when the file can no longer be trusted to take lines

	syncing sync.Mutex // one fsync at a time, each for all the lines written before it
	synced  int        // lines known to be on disk; guarded by syncing
}

// entry is one claim: a line of the file. A line with Done removes the entry of its key.
type entry struct {
	Key string `json:"claim_key"`
	Ref Ref    `json:"task,omitzero"`
	// Untouched says that the claim was given up, perhaps granted, before its tool was started.
	Untouched bool    `json:"untouched,omitzero"`
	Report    *report `json:"report,omitzero"` // the tool returned; the report was not yet answered
	Done      bool    `json:"done,omitzero"`
}

// compactAfter is by how many bytes the file grows before it is rewritten.
const compactAfter = 4 << 20

// OpenJournal opens the journal in a directory, both made for the owner alone when missing. It fails when
// another process has it open, and when the file is damaged anywhere but in its last line, which a crash
// may have cut.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "journal.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the journal in %s (is another runner using it?): %w", dir, err)
	}
	j := &Journal{path: filepath.Join(dir, "journal.jsonl"), lock: lock, live: map[string]entry{}}
	if err := j.load(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	if err := j.rewrite(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return j, nil
}

// Close closes the journal. What is in it stays for the next worker.
func (j *Journal) Close() error {
	return errors.Join(j.file.Close(), j.lock.Close())
}

// begin writes a claim that is about to be asked for. It returns when the line is on disk.
func (j *Journal) begin(e entry) error { return j.append(e, true) }

// keep replaces a claim by what became of it since. It returns when the line is on disk.
func (j *Journal) keep(e entry) error { return j.append(e, true) }

// end removes a claim. It does not wait for the disk: the line lost in a crash costs one refused claim.
func (j *Journal) end(key string) error { return j.append(entry{Key: key, Done: true}, false) }

// held lists the claims, oldest key first.
func (j *Journal) held() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]entry, 0, len(j.live))
	for _, e := range j.live {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (j *Journal) append(e entry, durable bool) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	n, err := j.write(e, append(line, '\n'))
	if err != nil || !durable {
		return err
	}
	return j.sync(n)
}

// write appends a line and returns its number.
func (j *Journal) write(e entry, line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, j.broken
	}
	if _, err := j.file.Write(line); err != nil {
		// Half a line in the middle would make the file unreadable: take it back, or take no more.
		if undo := j.file.Truncate(j.size); undo != nil {
			j.broken = fmt.Errorf("the journal is damaged: %w", errors.Join(err, undo))
		}
		return 0, fmt.Errorf("write the journal: %w", err)
	}
	j.size += int64(len(line))
	j.written++
	j.apply(e)
	return j.written, nil
}

func (j *Journal) apply(e entry) {
	if e.Done {
		delete(j.live, e.Key)
	} else {
		j.live[e.Key] = e
	}
}

// sync waits until line n is on disk. Whoever comes first syncs for all who wait.
func (j *Journal) sync(n int) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= n {
		return nil
	}
	j.mu.Lock()
	file, written, grown := j.file, j.written, j.size-j.base
	j.mu.Unlock()
	if grown > compactAfter {
		return j.compact()
	}
	if err := file.Sync(); err != nil {
		// After a failed fsync nobody knows what is on disk, and a second one may lie.
		j.mu.Lock()
		j.broken = fmt.Errorf("sync the journal: %w", err)
		j.mu.Unlock()
		return err
	}
	j.synced = written
	return nil
}

// compact rewrites the file with its live lines; the caller holds syncing.
func (j *Journal) compact() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.rewrite(); err != nil {
		return err
	}
	j.synced = j.written
	return nil
}

// rewrite replaces the file by one that holds the live lines only, whole or not at all.
func (j *Journal) rewrite() error {
	var b bytes.Buffer
	for _, e := range j.live {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("rewrite the journal: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	temp := j.path + ".new"
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	_, err = file.Write(b.Bytes())
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(temp, j.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(j.path))
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size, j.base = file, int64(b.Len()), int64(b.Len())
	return nil
}

// load reads the live claims of an existing file.
func (j *Journal) load() error {
	file, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 64<<10)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return fmt.Errorf("read the journal: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var e entry
			if bad := json.Unmarshal(line, &e); bad != nil || e.Key == "" {
				if _, err := lines.Peek(1); errors.Is(err, io.EOF) {
					return nil // cut by a crash, so its claim was never asked for
				}
				return fmt.Errorf("line %d of %s is damaged; move the file away to start without it", number, j.path)
			}
			j.apply(e)
		}
		if ended {
			return nil
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
