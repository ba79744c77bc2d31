module github.com/goverse/goverse/internal/test/tools

go 1.26.0

toolchain go1.26.8

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/google/licensecheck v0.3.1
	github.com/goverse/goverse v0.0.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/goverse/goverse => ../../..
