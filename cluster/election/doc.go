// Package election defines the vocabulary of elections, of the cluster's own and of named ones: the leader, one
// term of it, the reasons for a term's end, and the errors to test for. The elections themselves are in package
// cluster.
//
// # What is not promised
//
//   - A Leader may be out of date. It is as old as the snapshot or event from which it was read. Only a node's
//     statement about itself, [Term.Valid], is exact.
//   - Work may outlive its term. The term's context ends; after that only the token stops work that goes on.
package election
