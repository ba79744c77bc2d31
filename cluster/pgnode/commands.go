package pgnode

import (
	"encoding/json"

	"github.com/goverse/goverse/cluster/event"
)

// requestData is the data of the event of an operator's request, in the column data.
type requestData struct {
	Processor string `json:"processor"`
	By        string `json:"by,omitempty"`
	From      string `json:"from,omitempty"`
	Position  string `json:"position,omitempty"`
}

// packRequest moves the fields of an operator's request to the event's data. Other events stay as they are.
func packRequest(e event.Event) event.Event {
	if e.Processor == "" {
		return e
	}
	// Strings can always be encoded.
	e.Data, _ = json.Marshal(requestData{storable(e.Processor), storable(e.By), storable(e.From), storable(e.Position)})
	return e
}

// unpackRequest is the inverse of packRequest.
func unpackRequest(e event.Event) event.Event {
	var r requestData
	if e.Type.OfProgram() || len(e.Data) == 0 || json.Unmarshal(e.Data, &r) != nil || r.Processor == "" {
		return e
	}
	e.Processor, e.By, e.From, e.Position, e.Data = r.Processor, r.By, r.From, r.Position, nil
	return e
}
