package zaplog

import (
	"slices"

	"go.uber.org/zap/zapcore"
)

// appendPairs appends zap fields to hclog's list of keys and values, in their order. Hclog has no namespaces,
// so a namespace becomes a prefix of the keys after it. appendPairs also returns the prefix that is open at the
// end.
func appendPairs(pairs []any, prefix string, fields []zapcore.Field) ([]any, string) {
	for _, f := range fields {
		switch f.Type {
		case zapcore.SkipType:
			continue
		case zapcore.NamespaceType:
			prefix += f.Key + "."
			continue
		}
		// zap's own encoder turns the field into plain values. It survives a Stringer or an error that panics
		// on a nil receiver.
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		if f.Type == zapcore.ErrorType {
			// The multi-line form of an error would break one entry into many lines.
			delete(enc.Fields, f.Key+"Verbose")
		}
		keys := make([]string, 0, len(enc.Fields))
		for k := range enc.Fields {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			pairs = append(pairs, prefix+k, enc.Fields[k])
		}
	}
	return pairs, prefix
}
