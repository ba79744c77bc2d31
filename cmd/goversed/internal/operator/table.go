package operator

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// tableWriter writes lines and, between them, rows with aligned columns. It writes nothing after a failed write.
type tableWriter struct {
	out  io.Writer
	rows *tabwriter.Writer
	err  error
}

func (t *tableWriter) writeRow(columns ...string) {
	if t.rows == nil {
		t.rows = tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	}
	_, _ = fmt.Fprintln(t.rows, strings.Join(columns, "\t")) // Flush returns the error
}

func (t *tableWriter) writeLine(format string, args ...any) {
	if t.flush() == nil {
		_, t.err = fmt.Fprintf(t.out, format+"\n", args...)
	}
}

func (t *tableWriter) flush() error {
	if t.rows != nil && t.err == nil {
		t.err = t.rows.Flush()
	}
	t.rows = nil
	return t.err
}
