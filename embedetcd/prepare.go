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

// noteName is the file in which a member keeps its greeting until etcd has begun its log.
const noteName = "goverse.bootstrap"

// boot is with what etcd starts on a directory that has no log yet.
type boot struct {
	cluster, token string
	joins          bool // a running cluster
}

// hasLog reports whether etcd has begun its log in the directory: it is a member then, and of which cluster
// is written there.
func (d *dataDir) hasLog() bool { return wal.Exist(filepath.Join(d.path, "member", "wal")) }

// note reads the greeting that was kept; there is none if it is not there or another cluster's.
func (d *dataDir) note(members string) (greeting, bool, error) {
	text, err := os.ReadFile(filepath.Join(d.path, noteName))
	if errors.Is(err, fs.ErrNotExist) {
		return greeting{}, false, nil
	}
	if err != nil {
		return greeting{}, false, unusable(d.path, err)
	}
	var g greeting
	// One that was cut off by a crash of the machine said nothing to anybody.
	if json.Unmarshal(text, &g) != nil || g.Members != members {
		return greeting{}, false, nil
	}
	return g, true, nil
}

// keep writes the greeting so that it survives a crash of the machine.
func (d *dataDir) keep(g greeting) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	path := filepath.Join(d.path, noteName)
	if err := writeSynced(path+".new", text); err != nil {
		return unusable(d.path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return unusable(d.path, err)
	}
	return d.sync()
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// sync makes the names in the directory last.
func (d *dataDir) sync() error {
	f, err := os.Open(d.path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return unusable(d.path, err)
	}
	return nil
}

// begun removes what only mattered until etcd had a log.
func (d *dataDir) begun() error {
	if err := os.Remove(filepath.Join(d.path, noteName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unusable(d.path, err)
	}
	return nil
}

// prepare finds out how etcd is to start in the directory. For a member of several that has no data it
// blocks until the others have answered; see Start.
func prepare(ctx context.Context, c Config, dir *dataDir) (boot, error) {
	fresh := boot{cluster: initialCluster(c), token: c.Token}
	switch {
	case len(c.Peers) == 0:
		// etcd derives the cluster id from the token. It must differ from one new
		// data directory to the next, or clients cannot see that history was lost.
		fresh.token = rand.Text()
		return fresh, nil
	case c.together:
		return fresh, nil
	case dir.hasLog():
		return fresh, dir.begun()
	}
	mine, kept, err := dir.note(fresh.cluster + " " + c.Token)
	if err != nil {
		return boot{}, err
	}
	if err := dir.clear(kept); err != nil {
		return boot{}, err
	}
	if !kept {
		mine = greeting{Members: fresh.cluster + " " + c.Token, Nonce: rand.Text()}
		if err := dir.keep(mine); err != nil {
			return boot{}, err
		}
	}
	if len(c.Peers) > 1 && !mine.Begun {
		s, err := meet(ctx, c, dir, mine)
		if err != nil {
			return boot{}, err
		}
		if s.do == doJoin {
			return boot{cluster: withMembers(c, s.members), token: c.Token, joins: true}, nil
		}
		if mine, _, err = dir.note(mine.Members); err != nil {
			return boot{}, err
		}
	}
	fresh.token += "-" + mine.Agreed
	if mine.Agreed == "" { // the only member
		fresh.token += mine.Nonce
	}
	return fresh, nil
}

// clear removes what etcd left behind when it was ended before it had begun its log. Without a note of
// ours it had, and the log is lost.
func (d *dataDir) clear(kept bool) error {
	member := filepath.Join(d.path, "member")
	if _, err := os.Stat(filepath.Join(member, "snap", "db")); err == nil && !kept {
		return fmt.Errorf("embedetcd: %w: its log is gone, and only the database is left: restore a backup into %s, or move "+
			"that directory away (%w)",
			ErrDamaged, d.path, &fs.PathError{Op: "open", Path: filepath.Join(member, "wal"), Err: fs.ErrNotExist})
	}
	if err := os.RemoveAll(member); err != nil {
		return unusable(d.path, err)
	}
	return nil
}
