package probepb

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
)

// Action implements Do and the methods like it for a test.
type Action func(ctx context.Context, p *Probe, req *DoRequest) (*DoResponse, error)

// World holds the state that the objects of a test share. All methods are safe for concurrent use.
type World struct {
	mu      sync.Mutex
	actions map[string]Action
	events  []Event
	active  map[string]int // activations by key

	// OnActivate, if set, is called by the factory, which returns its error.
	OnActivate func(ctx context.Context, o *objects.Object) error
	// Leave and End, if set, are called by Deactivated.
	Leave func()
	End   func(ctx context.Context, p *Probe, reason objects.Reason)
}

// Event is an activation of an object, or the end of one.
type Event struct {
	Key    string
	Node   string
	Epoch  int64
	Reason objects.Reason // "" for an activation
}

// Probe is one object.
type Probe struct {
	UnimplementedProbeServer
	World  *World
	Object *objects.Object
	Node   string
	sum    int64
}

// SetAction sets the action that Do runs under a name.
func (w *World) SetAction(what string, action Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.actions == nil {
		w.actions = map[string]Action{}
	}
	w.actions[what] = action
}

// Events returns the events so far, in order.
func (w *World) Events() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Event(nil), w.events...)
}

// Active returns the number of activations of a key.
func (w *World) Active(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active[key]
}

func (w *World) addEvent(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active == nil {
		w.active = map[string]int{}
	}
	w.events = append(w.events, e)
	if e.Reason == "" {
		w.active[e.Key]++
	} else {
		w.active[e.Key]--
	}
}

// Register registers the service on a node.
func (w *World) Register(c objects.Registrar, node string, options ...objects.Option) {
	objects.Register(c, RegisterProbeServer, func(ctx context.Context, o *objects.Object) (ProbeServer, error) {
		if w.OnActivate != nil {
			if err := w.OnActivate(ctx, o); err != nil {
				return nil, err
			}
		}
		return &Probe{World: w, Object: o, Node: node}, nil
	}, options...)
}

// Activated implements objects.Activator.
func (p *Probe) Activated(context.Context) error {
	p.World.addEvent(Event{Key: p.Object.Key(), Node: p.Node, Epoch: p.Object.Epoch()})
	return nil
}

// Deactivated implements objects.Deactivator.
func (p *Probe) Deactivated(ctx context.Context, reason objects.Reason) {
	p.World.addEvent(Event{Key: p.Object.Key(), Node: p.Node, Epoch: p.Object.Epoch(), Reason: reason})
	if p.World.Leave != nil {
		p.World.Leave()
	}
	if p.World.End != nil {
		p.World.End(ctx, p, reason)
	}
}

// Add implements ProbeServer.
func (p *Probe) Add(_ context.Context, req *AddRequest) (*AddResponse, error) {
	p.sum += req.GetAmount()
	return &AddResponse{Sum: p.sum, Epoch: p.Object.Epoch(), Node: p.Node}, nil
}

// Echo implements ProbeServer.
func (p *Probe) Echo(_ context.Context, req *Blob) (*Blob, error) { return req, nil }

// Do implements ProbeServer.
func (p *Probe) Do(ctx context.Context, req *DoRequest) (*DoResponse, error) {
	p.World.mu.Lock()
	action := p.World.actions[req.GetWhat()]
	p.World.mu.Unlock()
	if action == nil {
		return nil, status.Errorf(codes.NotFound, "nothing is arranged under %q", req.GetWhat())
	}
	return action(ctx, p, req)
}

// Beside implements ProbeServer.
func (p *Probe) Beside(ctx context.Context, req *DoRequest) (*DoResponse, error) {
	return p.Do(ctx, req)
}

// Again implements ProbeServer.
func (p *Probe) Again(ctx context.Context, req *DoRequest) (*DoResponse, error) {
	return p.Do(ctx, req)
}

// Repeat implements ProbeServer.
func (p *Probe) Repeat(ctx context.Context, req *DoRequest) (*DoResponse, error) {
	return p.Do(ctx, req)
}

// Download implements ProbeServer.
func (p *Probe) Download(req *DownloadRequest, stream grpc.ServerStreamingServer[Blob]) error {
	for range req.GetBlobs() {
		if err := stream.Send(&Blob{Data: make([]byte, req.GetBytes())}); err != nil {
			return err
		}
	}
	if req.GetStay() {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return nil
}

// Upload implements ProbeServer.
func (p *Probe) Upload(stream grpc.ClientStreamingServer[Blob, AddResponse]) error {
	var sum int64
	for {
		blob, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&AddResponse{Sum: sum, Epoch: p.Object.Epoch(), Node: p.Node})
		}
		if err != nil {
			return err
		}
		sum += int64(len(blob.GetData()))
	}
}

// Chat implements ProbeServer.
func (p *Probe) Chat(stream grpc.BidiStreamingServer[Blob, Blob]) error { return EchoChat(stream) }

// EchoChat sends back everything it receives, until the caller stops sending.
func EchoChat(stream grpc.BidiStreamingServer[Blob, Blob]) error {
	for {
		blob, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.Send(blob)
		}
		if err != nil {
			return err
		}
	}
}
