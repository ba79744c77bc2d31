package eventlog

import (
	"time"

	"github.com/goverse/goverse/cluster/event"
)

// accusedSince remembers when nodes were accused, and gives the event of a removal the time that the node had to refute
// that. The zero value is ready.
type accusedSince map[string]time.Time

func (a *accusedSince) look(e *event.Event) {
	if *a == nil {
		*a = accusedSince{}
	}
	switch e.Type {
	case event.NodeAccused:
		if _, known := (*a)[e.Node]; !known { // the first of two accusers
			(*a)[e.Node] = e.Time
		}
	case event.NodeRemoved:
		if at, known := (*a)[e.Node]; known {
			e.Seconds = e.Time.Sub(at).Seconds()
		}
		delete(*a, e.Node)
	case event.NodeRefuted, event.NodeLost, event.NodeLeft, event.NodeJoined:
		delete(*a, e.Node)
	}
}
