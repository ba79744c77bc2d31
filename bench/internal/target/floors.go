package target

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

// floors measures etcd and its disk with one bare client.
func floors(ctx context.Context, env Env, r *report.Result) error {
	return withEtcd(func(p *etcdproc.Process) error {
		clients, closeAll, err := dial(ctx, p.Endpoint, 1)
		if err != nil {
			return err
		}
		defer closeAll()
		c := clients[0]
		w, err := watch(ctx, clients, "/floor/", 1)
		if err != nil {
			return err
		}
		defer w.close()
		disk, err := newDisk()
		if err != nil {
			return err
		}
		defer disk.close()

		probes := []struct {
			series *sample.Series
			probe  func() (time.Duration, error)
		}{
			{sample.Millis("fdatasync of 2 KiB"), disk.sync},
			{sample.Millis("Put"), timed(func() error {
				_, err := c.Put(ctx, "/probe/put", "127.0.0.1:47001")
				return err
			})},
			{sample.Millis("Txn (one compare, one put)"), timed(func() error { return bareTxn(ctx, c) })},
			{sample.Millis("linearizable Get"), timed(func() error {
				_, err := c.Get(ctx, "/probe/put")
				return err
			})},
			{sample.Millis("put to watch event"), func() (time.Duration, error) { return w.put(ctx, 0) }},
			{sample.Millis("delete to watch event"), func() (time.Duration, error) { return w.remove(ctx, 0) }},
		}
		n := env.pick(1000, 20)
		for i := range n {
			for _, probe := range probes {
				d, err := probe.probe()
				if err != nil {
					return fmt.Errorf("%s: %w", probe.series.Name, err)
				}
				if i > 0 { // the first one warms up
					probe.series.Add(d)
				}
			}
		}
		for _, probe := range probes {
			s := probe.series
			r.Row(s.Name, "", p50p99(s.Median(), s.P(0.99)), report.Context)
			r.Keep(s)
		}
		r.Note("One bare client of one etcd over TCP loopback, fsync on, %d samples each, taken in turns.", n-1)
		return nil
	})
}

// bareTxn commits the transaction that serves as a unit for others.
func bareTxn(ctx context.Context, c *clientv3.Client) error {
	_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision("/probe/none"), "=", 0)).
		Then(clientv3.OpPut("/probe/txn", "127.0.0.1:47001")).Commit()
	return err
}

func timed(f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		started := time.Now()
		err := f()
		return time.Since(started), err
	}
}

// disk is a file on the same disk as etcd's files.
type disk struct {
	dir  string
	file *os.File
}

func newDisk() (*disk, error) {
	dir, err := os.MkdirTemp("", "goverse-bench-")
	if err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &disk{dir: dir, file: f}, nil
}

func (d *disk) sync() (time.Duration, error) {
	block := make([]byte, 2<<10)
	started := time.Now()
	if _, err := d.file.Write(block); err != nil {
		return 0, err
	}
	err := syscall.Fdatasync(int(d.file.Fd()))
	return time.Since(started), err
}

func (d *disk) close() {
	_ = d.file.Close()
	_ = os.RemoveAll(d.dir)
}
