package embedetcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// noteName is the file that stores a member's greeting until etcd has created its log.
const noteName = "goverse.bootstrap"

// bootPlan describes how etcd starts in a directory without a log.
type bootPlan struct {
	cluster, token string
	joins          bool // the member joins a running cluster
}

// hasLog reports whether etcd has created its log in the directory. If it has, the directory belongs to a
// member, and the log identifies its cluster.
func (d *dataDir) hasLog() bool { return wal.Exist(filepath.Join(d.path, "member", "wal")) }

// readNote reads the stored greeting. It reports false if there is none or if it belongs to another cluster.
func (d *dataDir) readNote(members string) (greeting, bool, error) {
	text, err := os.ReadFile(filepath.Join(d.path, noteName))
	if errors.Is(err, fs.ErrNotExist) {
		return greeting{}, false, nil
	}
	if err != nil {
		return greeting{}, false, unusableError(d.path, err)
	}
	var g greeting
	// A file cut off by a crash of the machine was never announced to other members, so it is ignored.
	if json.Unmarshal(text, &g) != nil || g.Members != members {
		return greeting{}, false, nil
	}
	return g, true, nil
}

// storeNote stores the greeting durably, so that it survives a crash of the machine.
func (d *dataDir) storeNote(g greeting) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	path := filepath.Join(d.path, noteName)
	if err := writeSynced(path+".new", text); err != nil {
		return unusableError(d.path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return unusableError(d.path, err)
	}
	return d.syncDir()
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in the directory durable.
func (d *dataDir) syncDir() error {
	f, err := os.Open(d.path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return unusableError(d.path, err)
	}
	return nil
}

// removeNote removes the file that is needed only until etcd has a log.
func (d *dataDir) removeNote() error {
	if err := os.Remove(filepath.Join(d.path, noteName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unusableError(d.path, err)
	}
	return nil
}

// prepareBoot determines how etcd starts in the directory. For a member of several without data it blocks until the
// others have answered; see Start.
func prepareBoot(ctx context.Context, c Config, dir *dataDir) (bootPlan, error) {
	fresh := bootPlan{cluster: initialCluster(c), token: c.Token}
	switch {
	case len(c.Peers) == 0:
		// etcd derives the cluster id from the token. The token must differ between one new data directory and
		// the next; otherwise clients could not detect that history was lost.
		fresh.token = rand.Text()
		return fresh, nil
	case c.allNew:
		return fresh, nil
	case dir.hasLog():
		return fresh, dir.removeNote()
	}
	mine, kept, err := dir.readNote(fresh.cluster + " " + c.Token)
	if err != nil {
		return bootPlan{}, err
	}
	if err := dir.clearRemains(kept); err != nil {
		return bootPlan{}, err
	}
	if !kept {
		mine = greeting{Members: fresh.cluster + " " + c.Token, Nonce: rand.Text()}
		if err := dir.storeNote(mine); err != nil {
			return bootPlan{}, err
		}
	}
	if len(c.Peers) > 1 && !mine.Begun {
		s, err := meetPeers(ctx, c, dir, mine)
		if err != nil {
			return bootPlan{}, err
		}
		if s.do == doJoin {
			return bootPlan{cluster: joinCluster(c, s.members), token: c.Token, joins: true}, nil
		}
		if mine, _, err = dir.readNote(mine.Members); err != nil {
			return bootPlan{}, err
		}
	}
	fresh.token += "-" + mine.Agreed
	if mine.Agreed == "" { // the only member
		fresh.token += mine.Nonce
	}
	return fresh, nil
}

// clearRemains removes the remains of an etcd that was ended before it had created its log. If kept is false, this
// member stored no greeting here, so etcd did create a log, and the log is lost: clearRemains then fails if there is a
// database.
func (d *dataDir) clearRemains(kept bool) error {
	member := filepath.Join(d.path, "member")
	if _, err := os.Stat(filepath.Join(member, "snap", "db")); err == nil && !kept {
		return fmt.Errorf("embedetcd: %w: its log is gone, and only the database is left: restore a backup into %s, or move "+
			"that directory away (%w)",
			ErrDamaged, d.path, &fs.PathError{Op: "open", Path: filepath.Join(member, "wal"), Err: fs.ErrNotExist})
	}
	if err := os.RemoveAll(member); err != nil {
		return unusableError(d.path, err)
	}
	return nil
}
