package simulation

import (
	"context"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/state"
)

// electionPart is a part in the election only, as leaderelection.Runner runs it.
type electionPart struct {
	p             *process
	participation *leaderelection.Participation
}

func (p *process) assembleElectionOnly() {
	process, observer := p.etcdProcess(), p.host.roles.observer
	registered, err := registration.New(registration.Config{Process: process, TTL: p.w.ttl,
		Record: state.Record{InstanceID: p.id, Observer: observer, ElectionOnly: true}})
	if err != nil {
		panic(err) // the configuration is valid
	}
	part := electionPart{p: p}
	p.election, part.participation, err = leaderelection.NewForMember(leaderelection.MemberConfig{
		Process: process, Observer: observer, WorkTimeout: workTimeout, Mirror: registered.Mirror,
		Keeper: registered.Keeper})
	if err != nil {
		panic(err) // the configuration is valid
	}
	p.part, p.registered = part, registered
	p.node.closed = true // it does not listen
}

// join implements part.
func (e electionPart) join(ctx context.Context) error {
	e.p.registered.Start()
	if _, err := e.p.registered.AwaitRegistered(ctx); err != nil {
		return err
	}
	return e.participation.Start(ctx)
}

// leave implements part.
func (e electionPart) leave() (last *etcdsession.Session, err error) {
	p := e.p
	err = p.registered.Leave(p.ctx, func(ctx context.Context) error {
		err := e.participation.Withdraw(ctx)
		p.recordWorkEnded()
		last = p.session()
		return err
	}, e.participation.Close)
	return last, err
}
