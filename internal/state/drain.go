package state

import (
	"cmp"
	"slices"
)

// DrainRecord is the value of a nodes-drain key: an operator's request that the member at that address release
// its shards, or with Undo, that it may have shards again. It is void unless the member's incarnation is
// Incarnation.
type DrainRecord struct {
	Incarnation int64 `json:"incarnation"`
	Undo        bool  `json:"undo,omitempty"`
}

// Encode returns the request as it is stored.
func (r DrainRecord) Encode() string { return encodeJSON(r) }

// DecodeDrain decodes the value of a nodes-drain key.
func DecodeDrain(value []byte) (DrainRecord, error) { return decodeJSON[DrainRecord](value) }

// Drain is the present request about a member's shards.
type Drain struct {
	Address string
	DrainRecord
	ModRevision int64
}

// DrainOf returns the request about the shards of the member at address, or nil if there is none or it cannot be
// read. The request may be void.
func (s *Snapshot) DrainOf(address string) *Drain {
	if i, ok := s.drainIndex(address); ok {
		return s.Drains[i]
	}
	return nil
}

func (s *Snapshot) putDrain(p ParsedKey, kv KV) error {
	s.removeDrain(p.Address)
	record, err := DecodeDrain(kv.Value)
	if err != nil {
		return err
	}
	i, _ := s.drainIndex(p.Address)
	s.Drains = insertAt(s.Drains, i, &Drain{Address: p.Address, DrainRecord: record, ModRevision: kv.ModRevision})
	return nil
}

func (s *Snapshot) removeDrain(address string) {
	if i, ok := s.drainIndex(address); ok {
		s.Drains = removeAt(s.Drains, i)
	}
}

func (s *Snapshot) drainIndex(address string) (int, bool) {
	return slices.BinarySearchFunc(s.Drains, address, func(d *Drain, a string) int { return cmp.Compare(d.Address, a) })
}
