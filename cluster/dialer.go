package cluster

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/peer"
)

// watchDialer opens watches on other nodes for the crash detector.
type watchDialer struct {
	node *peer.Node // opens watches in this node's name
	opts []grpc.DialOption
}

// Watch implements crash.Dialer.
func (d watchDialer) Watch(ctx context.Context, address, instance string, heard func(heartbeat.Beat) bool) (crash.Watch,
	error) {
	w, err := d.node.OpenWatch(ctx, address, instance, heard, d.opts...)
	switch {
	case errors.Is(err, peer.ErrOtherInstance):
		return nil, fmt.Errorf("%w: %w", crash.ErrOtherInstance, err)
	case errors.Is(err, peer.ErrRefused):
		return nil, fmt.Errorf("%w: %w", crash.ErrRefused, err)
	case err != nil:
		return nil, err
	}
	return nodeWatch{w}, nil
}

// identify returns the instance id of the node that answers at address.
func (d watchDialer) identify(ctx context.Context, address string) (instance string, err error) {
	identity, err := peer.Identify(ctx, address, d.opts...)
	return identity.InstanceID, err
}

type nodeWatch struct{ *peer.Watch }

// Instance implements crash.Watch.
func (w nodeWatch) Instance() string { return w.InstanceID }
