package host

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/histogram"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// Services holds the registered services and finds their methods. It does not change once calls arrive.
type Services struct {
	byName  map[string]*service
	methods map[string]*Method
}

// NewServices returns the table of the given services. It panics if a service is registered twice.
func NewServices(registered []hosted.Service) *Services {
	t := &Services{byName: map[string]*service{}, methods: map[string]*Method{}}
	for _, r := range registered {
		t.addService(r)
	}
	return t
}

// service is one hosted service.
type service struct {
	registered hosted.Service
	name       string
	idleAfter  time.Duration // 0 means the host's
	maxQueue   int           // 0 means the host's
	methods    []*Method
	tickMethod Method // the method of timer ticks
	recent     recentList
	metrics    serviceMetrics
}

// Method is a method of a hosted service.
type Method struct {
	service *service
	// Name is the full name, "/package.Service/Method".
	Name string
	// Exactly one of Unary and Stream is set.
	Unary  *grpc.MethodDesc
	Stream *grpc.StreamDesc
	// Idempotent reports whether a call may be repeated although it may have run.
	Idempotent            bool
	concurrent, reentrant bool
	isTick                bool // a timer's tick, which is no method of the service
	shortName             string
	outcomes              callCounts
	refused               countStripe // calls that were not started
}

func (t *Services) addService(r hosted.Service) {
	name := r.Desc.ServiceName
	if t.byName[name] != nil {
		panic(fmt.Sprintf("objects: service %s is registered twice: register each service once", name))
	}
	s := &service{registered: r, name: name, idleAfter: r.Options.IdleAfter, maxQueue: r.Options.MaxQueue,
		metrics: serviceMetrics{latency: histogram.NewDurations(latencyBounds...),
			queued: histogram.NewDurations(latencyBounds...)}}
	s.tickMethod = Method{service: s, isTick: true}
	t.byName[name] = s
	method := func(short string) *Method {
		m := &Method{service: s, Name: "/" + name + "/" + short, shortName: short,
			Idempotent: hosted.Includes(r.Options.Idempotent, short),
			concurrent: hosted.Includes(r.Options.Concurrent, short),
			reentrant:  hosted.Includes(r.Options.Reentrant, short)}
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

// Method returns the method with that full name, or nil.
func (t *Services) Method(name string) *Method { return t.methods[name] }

// Has reports whether the service is hosted.
func (t *Services) Has(service string) bool { return t.byName[service] != nil }
