// Package deploy has no code. Its tests check the files in the directories next to it, with the libraries of
// the programs that read them: Prometheus' rule engine evaluates the alerts and parses the dashboard's
// expressions, kustomize builds the Kubernetes manifests, the validation of the Kubernetes API server checks
// them, and so on. The package is in a module of its own, so that programs which link Goverse do not depend on
// those libraries.
//
// Not promised: the tests do not show that a running Grafana, Kubernetes cluster or Docker engine handles the
// files as expected. They use none of them.
package deploy
