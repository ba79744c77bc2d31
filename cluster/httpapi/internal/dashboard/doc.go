// Package dashboard is the page that a node shows to people: who leads, the nodes, the shards, what happened, and, for
// operators with a token, the admin calls. It is one file of HTML with its style and its script inside, which follows
// /cluster/stream and asks for nothing but the pages of package httpapi, by relative addresses, so that it works below
// a prefix too.
//
//	page.html ─┐
//	style.css ─┼── one page, and a Content-Security-Policy with the hashes of style and script
//	app.js ────┘
//
// The script has four parts: the connection, which knows whether what is shown is so now; the state, which is the
// newest body of each page; functions that make elements of it, which replace those that differ; and the picture of
// the shards. Text of the cluster, such as names and reasons, gets into the page as text only.
//
// # What is not promised
//
// The page shows what its node sees. It says when it cannot be current, because the node does not answer or is cut off
// from etcd; what it shows until then can be as old as a beat of the stream and the time-out for a silent one, six
// seconds together. It needs a browser of 2024 or later, with JavaScript.
package dashboard
