// Package election is the vocabulary of elections, the cluster's own and named ones: who
// leads, one term of it, why a term ended, and the errors to test for. Package cluster has
// the elections themselves.
//
// # What is not promised
//
//   - That a Leader is current: it is as old as the snapshot or event that it was read from.
//     Only what a node says of itself, [Term.Valid], is exact.
//   - That work ends with its term. Its context ends; what goes on after that is stopped by the
//     token alone.
package election
