package daemon

import (
	"context"
	"errors"
	"fmt"
)

// stop stops all parts, in this order: the cluster, while etcd can still hand over and HTTP still answers; then
// HTTP; and etcd last, when no other part needs it.
func (d *Daemon) stop(ctx, cut context.Context) error {
	stopping, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	release := context.AfterFunc(cut, func() { cancel(errors.New("it was asked to stop at once")) })
	defer release()
	if d.cfg.StopTimeout > 0 {
		var expire context.CancelFunc
		stopping, expire = context.WithTimeoutCause(stopping, d.cfg.StopTimeout,
			fmt.Errorf("it took longer than %v; see --stop-timeout", d.cfg.StopTimeout))
		defer expire()
	}

	others := d.countOthers() // read while the cluster runs
	var errs []error
	if d.cluster != nil {
		errs = append(errs, d.cluster.Stop(stopping))
	} else {
		errs = append(errs, d.node.Close())
	}
	d.closeCertificates()
	if d.server != nil {
		errs = append(errs, d.server.Stop(stopping))
	}
	if d.tcpClient != nil {
		_ = d.tcpClient.Close() // its only error is that its context was cancelled
	}
	if d.etcd != nil {
		if others > 0 && len(d.cfg.Etcd.Peers) < 2 {
			d.log.Warn("stopping the embedded etcd: nodes that joined it have none now", "nodes", others)
		}
		errs = append(errs, d.etcd.Close())
	}
	err := errors.Join(errs...)
	switch {
	case err == nil:
		return nil
	case stopping.Err() != nil:
		// Each step that was cut short reports the same cause; one mention is enough.
		why := context.Cause(stopping)
		return newFlagError(errors.Join(ErrStopCut, why, err), "%v: %v", ErrStopCut, why)
	}
	return fmt.Errorf("stopped, but %w", err)
}

// countOthers returns the number of registered nodes besides this one, as last seen.
func (d *Daemon) countOthers() (n int) {
	if d.cluster == nil {
		return 0
	}
	for _, m := range d.cluster.Members() {
		if m.Address != d.NodeAddress() {
			n++
		}
	}
	return n
}
