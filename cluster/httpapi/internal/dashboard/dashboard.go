package dashboard

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
)

// Parts of the page. page.html has an empty style and an empty script element for the others. lanes.js and work.js are
// parts of app.js, in place of the comment partsMark.
var (
	//go:embed page.html
	pageHTML []byte
	//go:embed style.css
	styleCSS []byte
	//go:embed app.js
	appJS []byte
	//go:embed lanes.js
	lanesJS []byte
	//go:embed work.js
	workJS []byte
)

const partsMark = "/*parts*/"

// page and policy never change.
var page, policy = assemblePage(pageHTML, styleCSS, bytes.Replace(appJS, []byte(partsMark),
	bytes.Join([][]byte{lanesJS, workJS}, []byte("\n")), 1))

// assemblePage inserts style and script into the page, and returns the policy that permits only these.
func assemblePage(html, style, script []byte) (page []byte, policy string) {
	page = bytes.Replace(html, []byte("<style></style>"), inlineElement("style", style), 1)
	page = bytes.Replace(page, []byte("<script></script>"), inlineElement("script", script), 1)
	policy = "default-src 'none'; script-src '" + policyHash(script) + "'; style-src '" + policyHash(style) + "'; " +
		"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return page, policy
}

func inlineElement(element string, text []byte) []byte {
	return []byte("<" + element + ">" + string(text) + "</" + element + ">")
}

// policyHash returns the hash of an inline element in the form used by policies.
func policyHash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Serve answers a request for the page. It replaces the policy in the response's headers and leaves the other
// headers.
func Serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(page) // fails only if the client has gone
}
