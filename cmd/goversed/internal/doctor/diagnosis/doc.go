// Package diagnosis judges the facts that goversed doctor has gathered. Facts is one immutable value; Diagnose
// maps it to findings. Nothing in this package has a clock, a goroutine or I/O.
//
//	package doctor:  etcd, nodes ──► Facts ──► Diagnose ──► []Finding   ──► a line each, or JSON
//
// Not promised: a cluster without findings may still be unhealthy in a way that no check covers. Texts may
// change; they are for users. Programs can rely on Check and Severity.
package diagnosis
