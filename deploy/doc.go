// Package deploy has no code: its tests hold true what is in the directories beside it, by the libraries of the
// programs that read it. Alerts are evaluated by Prometheus' rule engine, the dashboard's expressions are parsed by it,
// the manifests for Kubernetes are built by kustomize and validated by what its API server validates with, and so on.
// It is a module of its own, so that a program that links Goverse depends on none of that.
//
// What is not shown here: that a Grafana, a cluster of Kubernetes or a Docker engine does with the files what is
// expected. The tests need none of them.
package deploy
