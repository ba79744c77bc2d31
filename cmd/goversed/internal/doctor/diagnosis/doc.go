// Package diagnosis judges what goversed doctor has seen. Facts are one immutable value, gathered by package
// doctor; Diagnose maps it to findings, and nothing here has a clock, a goroutine or I/O.
//
//	package doctor:  etcd, nodes ──► Facts ──► Diagnose ──► []Finding   ──► a line each, or JSON
//
// Not promised: that a cluster without findings is well, for nobody looks at what no rule here is about; nor the
// texts, which are for people. Check and Severity are for programs.
package diagnosis
