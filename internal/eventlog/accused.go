package eventlog

import (
	"time"

	"github.com/goverse/goverse/cluster/event"
)

// accusedSince records when nodes were accused. It sets, in the event of a removal, the time that the node had
// to refute the accusation. The zero value is ready to use.
type accusedSince map[string]time.Time

func (a *accusedSince) onEvent(e *event.Event) {
	if *a == nil {
		*a = accusedSince{}
	}
	switch e.Type {
	case event.NodeAccused:
		if _, known := (*a)[e.Node]; !known { // the first of several accusers counts
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
