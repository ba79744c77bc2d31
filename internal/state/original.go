package state

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrOriginalGoverse matches the error of a foreign key that the original goverse (github.com/xiaonanln/goverse)
// wrote. It is another project with the same default prefix; the two must not share one.
var ErrOriginalGoverse = errors.New("the original goverse wrote it")

// WrittenByOriginal reports whether the original goverse wrote the key: it keeps a node's address as the value of
// nodes/<address>, and one key for each shard, shard/<number>.
func (k Keys) WrittenByOriginal(key string, value []byte) bool {
	rest, ok := strings.CutPrefix(key, k.prefix+"/")
	if !ok {
		return false
	}
	if number, ok := strings.CutPrefix(rest, "shard/"); ok {
		n, err := strconv.Atoi(number)
		return err == nil && n >= 0
	}
	address, ok := strings.CutPrefix(rest, "nodes/")
	return ok && address != "" && string(value) == address
}

// explainForeign adds ErrOriginalGoverse to the reason why a key cannot be read, if that applies.
func (k Keys) explainForeign(kv KV, err error) error {
	if err != nil && k.WrittenByOriginal(kv.Key, kv.Value) {
		return fmt.Errorf("%w: %w", ErrOriginalGoverse, err)
	}
	return err
}
