package dashboard

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
)

// What the page is made of. page.html has an empty style and an empty script element for the others.
var (
	//go:embed page.html
	pageHTML []byte
	//go:embed style.css
	styleCSS []byte
	//go:embed app.js
	appJS []byte
)

// page and policy never change.
var page, policy = assemble(pageHTML, styleCSS, appJS)

// assemble puts style and script into the page, and makes the policy under which nothing else runs.
func assemble(html, style, script []byte) (page []byte, policy string) {
	page = bytes.Replace(html, []byte("<style></style>"), inside("style", style), 1)
	page = bytes.Replace(page, []byte("<script></script>"), inside("script", script), 1)
	policy = "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) + "'; " +
		"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return page, policy
}

func inside(element string, text []byte) []byte {
	return []byte("<" + element + ">" + string(text) + "</" + element + ">")
}

// hash is that of an inline element, as policies have it.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Serve answers a request for the page. It replaces the policy of the answer's headers, and leaves the others.
func Serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(page) // fails only if the client has gone
}
