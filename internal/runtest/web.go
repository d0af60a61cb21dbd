package runtest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// Answer is what came back, without its body.
type Answer struct {
	StatusCode int
	Header     http.Header
	Cookies    []*http.Cookie
}

// Browser returns a client that keeps cookies and follows no redirect.
func Browser(tb testing.TB, transport http.RoundTripper) *http.Client {
	tb.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Page asks for a page, with a form unless that is nil, and returns what came back.
func Page(tb testing.TB, client *http.Client, method, address string, form url.Values, headers ...string) (of Answer, body string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		tb.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return Answer{response.StatusCode, response.Header, response.Cookies()}, string(text)
}

// Stream opens a stream of events. next returns its next line that is not empty, and nothing at its end.
func Stream(tb testing.TB, client *http.Client, address string) (status int, header http.Header, next func() string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return response.StatusCode, response.Header, func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return ""
	}
}
