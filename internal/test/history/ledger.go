package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// LedgerEntry is one line of a ledger. It records that an effect took place; or, with Closed set, that from this
// line on entries of that effect with this token or a smaller one do not count.
type LedgerEntry struct {
	Name    string  `json:"name"`
	Token   int64   `json:"token"`
	Value   string  `json:"value,omitempty"` // returned by the effect; identifies the attempt
	Process string  `json:"proc,omitempty"`
	Closed  bool    `json:"closed,omitempty"`
	At      Instant `json:"at"`
}

// Ledger is the place where effects take place: a file that all processes of a recording append to. The order
// of its lines is the order of the effects. No fault at etcd or in the network reaches it. All methods are safe
// for concurrent use.
type Ledger struct{ file *os.File }

// OpenLedger opens the ledger at path and creates it if it is missing. The ledger is a file of its own for
// [ReadFiles]. The caller closes it.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return &Ledger{f}, nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

// Append appends a line, which is the effect.
func (l *Ledger) Append(e LedgerEntry) error {
	e.At = Now()
	text, err := json.Marshal(recordLine{Effect: &e})
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(text, '\n'))
	return err
}

// CloseEffect closes the ledger to the named effect under this token and all smaller ones, and returns the entry of
// this token from before; false if there is none. The answer remains true even if the function of an abandoned
// attempt continues.
func (l *Ledger) CloseEffect(name string, token int64) (LedgerEntry, bool, error) {
	if err := l.Append(LedgerEntry{Name: name, Token: token, Closed: true}); err != nil {
		return LedgerEntry{}, false, err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, 1<<62))
	if err != nil && !errors.Is(err, io.EOF) {
		return LedgerEntry{}, false, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	h, err := Read(bytes.NewReader(whole))
	if err != nil {
		return LedgerEntry{}, false, fmt.Errorf("read the ledger: %w", err)
	}
	for _, e := range validEntries(h.Effects)[name] {
		if e.Token == token {
			return e, true, nil
		}
	}
	return LedgerEntry{}, false, nil
}

// validEntries returns the entries that count, by name, in order.
func validEntries(entered []LedgerEntry) map[string][]LedgerEntry {
	shut := map[string]int64{}
	out := map[string][]LedgerEntry{}
	for _, e := range entered {
		switch {
		case e.Closed:
			shut[e.Name] = max(shut[e.Name], e.Token)
		case e.Token > shut[e.Name]:
			out[e.Name] = append(out[e.Name], e)
		}
	}
	return out
}
