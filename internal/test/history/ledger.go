package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Entered is one line of a ledger: that an effect took place; or Closed: that from there on
// none counts whose token is not greater.
type Entered struct {
	Name    string  `json:"name"`
	Token   int64   `json:"token"`
	Value   string  `json:"value,omitempty"` // what it returned: the attempt that made it
	Process string  `json:"proc,omitempty"`
	Closed  bool    `json:"closed,omitempty"`
	At      Instant `json:"at"`
}

// Ledger is where effects take place: a file that all processes of a recording append to, so
// that its order is that of the effects. No fault at etcd or on the way to it reaches it. All
// methods are safe for concurrent use.
type Ledger struct{ file *os.File }

// OpenLedger opens the ledger at path, a file of its own for [ReadFiles]; it is created if
// missing. The caller closes it.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return &Ledger{f}, nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

// Enter is the effect.
func (l *Ledger) Enter(e Entered) error {
	e.At = Now()
	text, err := json.Marshal(line{Effect: &e})
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(text, '\n'))
	return err
}

// Shut has no effect of that name count any more whose token is not greater, and returns the
// one that did take place before; false if there was none. So what it says stays true, also if
// the function of an attempt that was given up goes on.
func (l *Ledger) Shut(name string, token int64) (Entered, bool, error) {
	if err := l.Enter(Entered{Name: name, Token: token, Closed: true}); err != nil {
		return Entered{}, false, err
	}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, 1<<62))
	if err != nil && !errors.Is(err, io.EOF) {
		return Entered{}, false, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	h, err := Read(bytes.NewReader(whole))
	if err != nil {
		return Entered{}, false, fmt.Errorf("read the ledger: %w", err)
	}
	for _, e := range standing(h.Effects)[name] {
		if e.Token == token {
			return e, true, nil
		}
	}
	return Entered{}, false, nil
}

// standing are the effects that count, by name, in order.
func standing(entered []Entered) map[string][]Entered {
	shut := map[string]int64{}
	out := map[string][]Entered{}
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
