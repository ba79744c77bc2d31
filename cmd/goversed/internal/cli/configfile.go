package cli

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// ConfigFlag is the name of the flag that names a file with flags.
const ConfigFlag = "config"

// ApplyFile sets each flag of cmd that is neither on the command line nor in a variable from the file that the flag
// --config names, if any. Call it after ApplyEnv. The file is a YAML mapping of flag names without dashes to values.
// A flag of another command has no effect here, so that one file can serve several commands. Errors are one line, with
// the line of the file; an error of the content is a UsageError.
func ApplyFile(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup(ConfigFlag)
	if f == nil || f.Value.String() == "" {
		return nil
	}
	name := f.Value.String()
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--config: name a file that this user may read (%w)", err)
	}
	return WrapUsage(cmd.CommandPath(), applySettings(cmd, name, text))
}

// applySettings sets the flags from the content of a file.
func applySettings(cmd *cobra.Command, file string, text []byte) error {
	settings, err := parseSettings(file, text)
	if err != nil {
		return err
	}
	known := flagNames(cmd.Root())
	for _, s := range settings {
		f := cmd.Flags().Lookup(s.name)
		switch {
		case s.name == ConfigFlag || !slices.Contains(known, s.name):
			return s.errorf("unknown key %s", s.name+didYouMean(s.name, slices.DeleteFunc(slices.Clone(known),
				func(name string) bool { return name == ConfigFlag }), ""))
		case f == nil || f.Changed || s.value.Tag == "!!null":
			continue
		}
		if err := s.set(cmd.Flags(), f); err != nil {
			return err
		}
	}
	return nil
}

// setting is one key of a file with its value.
type setting struct {
	file, name string
	line       int
	value      *yaml.Node
}

func (s setting) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.file, s.line, fmt.Sprintf(format, args...))
}

// parseSettings parses the top level of a file, in the order of its lines.
func parseSettings(file string, text []byte) (all []setting, err error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %s: write flag: value, a line each", file, OneLine(err))
	}
	if len(document.Content) == 0 {
		return nil, nil // nothing but comments
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: write flag: value, a line each, like etcd: 127.0.0.1:2379", file, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		s := setting{file: file, name: strings.TrimPrefix(top.Content[i].Value, "--"), line: top.Content[i].Line,
			value: top.Content[i+1]}
		if twice := slices.IndexFunc(all, func(o setting) bool { return o.name == s.name }); twice >= 0 {
			return nil, s.errorf("%s is also in line %d: take one of them out", s.name, all[twice].line)
		}
		all = append(all, s)
	}
	return all, nil
}

// set sets the flag to the value: a scalar, a list for a flag that can be repeated, or a mapping for one of key=value.
func (s setting) set(fs *pflag.FlagSet, f *pflag.Flag) error {
	text, ok := s.value.Value, s.value.Kind == yaml.ScalarNode
	switch list := f.Value.(type) {
	case pflag.SliceValue:
		if values, isList := scalarsOf(s.value, yaml.SequenceNode); isList {
			if err := list.Replace(values); err != nil {
				return s.errorf("%s: %v", s.name, err)
			}
			f.Changed = true
			return nil
		}
	default:
		if f.Value.Type() == "stringToString" && s.value.Kind == yaml.MappingNode {
			if text, ok = joinPairs(s.value); !ok {
				break
			}
			if text == "" {
				return nil
			}
		}
	}
	if !ok {
		return s.errorf("%s: %s", s.name, howToWrite(f))
	}
	if err := fs.Set(f.Name, text); err != nil {
		return fmt.Errorf("%s:%d: %w", s.file, s.line, ExplainBadValue(err, s.name+": "+text))
	}
	return nil
}

// howToWrite returns the form of the flag's value in a file.
func howToWrite(f *pflag.Flag) string {
	switch {
	case f.Value.Type() == "stringToString":
		return "write a mapping, like {zone: a}, or key=value"
	case strings.HasSuffix(f.Value.Type(), "Slice"):
		return "write a list, like [a, b]"
	}
	return "write a single value, and no list or mapping"
}

// scalarsOf returns the values of a sequence, or the keys and values of a mapping. ok is false if the node is of
// another kind, or has anything but scalars.
func scalarsOf(n *yaml.Node, kind yaml.Kind) (values []string, ok bool) {
	if n.Kind != kind {
		return nil, false
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, false
		}
		values = append(values, item.Value)
	}
	return values, true
}

// joinPairs returns a mapping in the form of the command line: a=b,c=d.
func joinPairs(n *yaml.Node) (text string, ok bool) {
	values, ok := scalarsOf(n, yaml.MappingNode)
	if !ok {
		return "", false
	}
	var pairs []string
	for i := 0; i+1 < len(values); i += 2 {
		pairs = append(pairs, values[i]+"="+values[i+1])
	}
	if len(pairs) == 0 {
		return "", true
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if w.Write(pairs) != nil {
		return "", false
	}
	w.Flush()
	return strings.TrimRight(out.String(), "\n"), w.Error() == nil
}
