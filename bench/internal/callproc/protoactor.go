package callproc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"

	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/internal/test/probepb"
)

const (
	// actors is the number of actors, the largest number that a load calls.
	actors = 512
	// futureTimeout limits the wait for a reply. It is the default deadline of calls to objects.
	futureTimeout = 30 * time.Second
)

// NewActors returns a system of actors that logs nothing.
func NewActors() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

// EchoActor returns the properties of an actor that behaves like [Echo].
func EchoActor() *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &echoActor{} })
}

type echoActor struct{ sum int64 }

// Receive implements actor.Actor.
func (e *echoActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *probepb.Blob:
		c.Respond(m)
	case *probepb.AddRequest:
		e.sum += m.GetAmount()
		c.Respond(&probepb.AddResponse{Sum: e.sum})
	}
}

// Ask sends a request to an actor and waits for its reply.
func Ask[T any](system *actor.ActorSystem, pid *actor.PID, request any) (T, error) {
	reply, err := system.Root.RequestFuture(pid, request, futureTimeout).Result()
	typed, ok := reply.(T)
	if err == nil && !ok {
		err = fmt.Errorf("the actor answered with a %T", reply)
	}
	return typed, err
}

// StartProtoactor starts a process with actors of protoactor-go, which are reached through its remote. The
// process's Said is the address.
func StartProtoactor() (*reexec.Process, error) { return reexec.Start(answerProtoactorArg) }

func answerProtoactor(ctx context.Context, _ []string) error {
	system, end := withRemote()
	for i := range actors {
		if _, err := system.Root.SpawnNamed(EchoActor(), actorName(i)); err != nil {
			return err
		}
	}
	reexec.Ready(system.Address())
	<-ctx.Done()
	end()
	return nil
}

// withRemote returns a system that other processes can reach, with the defaults of protoactor-go.
func withRemote() (system *actor.ActorSystem, end func()) {
	system = NewActors()
	r := remote.NewRemote(system, remote.Configure("127.0.0.1", 0))
	r.Start()
	return system, func() { r.Shutdown(false) }
}

func actorName(i int) string { return fmt.Sprintf("echo %d", i) }

// StartProtoactorCaller starts a process that calls the actors at an address.
func StartProtoactorCaller(address string) (*Caller, error) {
	return startCaller(callProtoactorArg, address)
}

func callProtoactor(ctx context.Context, args []string) error {
	system, end := withRemote()
	defer end()
	return control(ctx, &service{caller: &caller{unary: func(_ context.Context, l *Load, i int) func() error {
		pid, request := actor.NewPID(args[0], actorName(i)), &probepb.Blob{Data: make([]byte, l.Bytes)}
		return func() error {
			reply, err := Ask[*probepb.Blob](system, pid, request)
			return checked(reply, err, l)
		}
	}}}, "")
}
