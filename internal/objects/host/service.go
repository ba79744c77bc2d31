package host

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
)

// Services are the registered services, by which calls are looked up. It is not written to while calls come.
type Services struct {
	byName  map[string]*service
	methods map[string]*Method
}

// NewServices is the table of these services. It panics where one is there twice.
func NewServices(registered []objects.Service) *Services {
	t := &Services{byName: map[string]*service{}, methods: map[string]*Method{}}
	for _, r := range registered {
		t.add(r)
	}
	return t
}

// service is one service that is hosted.
type service struct {
	registered objects.Service
	name       string
	idleAfter  time.Duration // 0: the host's
	maxQueue   int           // 0: the host's
	methods    []*Method
	ticks      Method // what ticks of timers are calls of
	recent     recent
	figures    figures
}

// Method is a method of a service that is hosted.
type Method struct {
	service *service
	// Name is the full one: "/package.Service/Method".
	Name string
	// Unary or Stream is set.
	Unary  *grpc.MethodDesc
	Stream *grpc.StreamDesc
	// Idempotent: a call may be repeated although it may have run.
	Idempotent            bool
	concurrent, reentrant bool
	tick                  bool // of a timer: no method of the service
	short                 string
	outcomes              outcomes
	refused               stripe // calls that were not started
}

func (t *Services) add(r objects.Service) {
	name := r.Desc.ServiceName
	if t.byName[name] != nil {
		panic(fmt.Sprintf("objects: service %s is registered twice: register each service once", name))
	}
	s := &service{registered: r, name: name, idleAfter: r.Options.IdleAfter, maxQueue: r.Options.MaxQueue}
	s.ticks = Method{service: s, tick: true}
	t.byName[name] = s
	method := func(short string) *Method {
		m := &Method{service: s, Name: "/" + name + "/" + short, short: short,
			Idempotent: objects.Names(r.Options.Idempotent, short),
			concurrent: objects.Names(r.Options.Concurrent, short),
			reentrant:  objects.Names(r.Options.Reentrant, short)}
		t.methods[m.Name] = m
		s.methods = append(s.methods, m)
		return m
	}
	for i := range r.Desc.Methods {
		method(r.Desc.Methods[i].MethodName).Unary = &r.Desc.Methods[i]
	}
	for i := range r.Desc.Streams {
		method(r.Desc.Streams[i].StreamName).Stream = &r.Desc.Streams[i]
	}
}

// Method looks a method up by its full name; nil if there is none.
func (t *Services) Method(name string) *Method { return t.methods[name] }

// Has reports whether a service is hosted.
func (t *Services) Has(service string) bool { return t.byName[service] != nil }
