// Package dashboard serves a node's web page for people. It shows the leader, the nodes, the shards and recent
// events; operators with a token can make admin calls. The page is one HTML file that contains its style and
// script. It follows /cluster/stream and requests only pages of package httpapi, by relative addresses, so that
// it also works below a prefix.
//
//	page.html ─┐
//	style.css ─┼── one page, and a Content-Security-Policy with the hashes of style and script
//	app.js ────┘
//
// The script has four parts: the connection, which tracks whether the page is current; the state, which holds the
// newest body of each page; functions that render it, which replace the elements that differ; and the picture of
// the shards. Text from the cluster, such as names and reasons, is inserted into the page only as text.
//
// # What is not promised
//
// The page shows its node's view. It marks the view as possibly out of date while the node does not answer or is
// cut off from etcd. Until then the view can be as old as a beat of the stream plus the time-out for a silent
// one, six seconds together. The page needs a browser from 2024 or later, with JavaScript.
package dashboard
