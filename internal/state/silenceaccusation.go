package state

// SilenceAccusationRecord is the value of an accusation of silence: an accused-silent key. It says that the accused, as
// registered with that incarnation, sends its accuser nothing. A mark of silence says the same to operators, and
// nothing follows from it; see [SilenceRecord].
//
// No program reads the record; it is for operators. The accused counts every key below [Keys.SilenceAccusationsOf] as
// an accusation. Its refutation deletes them all: they are about it, and it lives. Otherwise only its author deletes
// such a key.
type SilenceAccusationRecord struct {
	Incarnation int64 `json:"incarnation"`
	// AccuserIncarnation is the incarnation of the accuser.
	AccuserIncarnation int64 `json:"accuser_incarnation"`
	// SilentMS is the time for which the accused had been silent when the record was written, in milliseconds.
	SilentMS int64 `json:"silent_ms"`
}

// Encode returns the record as it is stored.
func (r SilenceAccusationRecord) Encode() string { return encodeJSON(r) }
