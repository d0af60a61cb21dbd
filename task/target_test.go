package task_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

func TestTargetURLs(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"host": "hooks.acme.example", "url": "https://acme.example/in?x=1", "evil": "a.example/?", "at": "me@a.example", "up": "..", "dot": ".", "climb": "a/../../b", "q": "a&b=c d#e", "x": "é/ü", "port": "a.example:22", "js": "file:///etc/passwd"}
	for _, c := range []struct{ url, want string }{ // empty: refused for this task; "-": for all
		{"https://a.example/tasks", "https://a.example/tasks"},
		{"https://a.example", "https://a.example"},
		{"http://a.example:8080/{key}?q={tag.q}", "http://a.example:8080/order%2F7?q=a%26b%3Dc+d%23e"},
		{"https://a.example/{tag.x}", "https://a.example/%C3%A9%2F%C3%BC"},
		{"https://{tag.host}/in", "https://hooks.acme.example/in"},
		{"https://x-{tag.host}:8443", "https://x-hooks.acme.example:8443"},
		{"{tag.url}", "https://acme.example/in?x=1"},
		{"{tag.js}", ""},
		{"{tag.at}", ""},
		{"https://{tag.evil}.a.example/", ""},
		{"https://{tag.at}/", ""},
		{"https://{tag.port}/", ""},
		{"https://a.example/{tag.up}/x", ""},
		{"https://a.example/x.{tag.nope}", ""},
		{"https://a.example/%2e{tag.dot}", ""},
		{"https://a.example/{tag.climb}", ""},
		{"", "-"},
		{"a.example/x", "-"},
		{"ftp://a.example/", "-"},
		{"https://me:pw@a.example/", "-"},
		{"https://a.example/#x", "-"},
		{"https:///x", "-"},
		{"https://a.example/{limit}", "-"},
		{"https://a.example/{", "-"},
		{"https://a.example/{{key}}", "-"},
		{"{key}{key}", "-"},
		{"https://a.example/" + strings.Repeat("x", task.TargetURLBytesMax), "-"},
	} {
		u, err := task.ParseTargetURL(c.url)
		if (err != nil) != (c.want == "-") || err != nil && !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%.80s: %v", c.url, err)
		}
		if err != nil {
			continue
		}
		switch got, err := u.Of("order/7", tags); {
		case c.want == "" && !errors.Is(err, task.ErrInvalid):
			t.Errorf("%s: %v, %v, want a refusal", c.url, got, err)
		case c.want != "" && (err != nil || got.String() != c.want):
			t.Errorf("%s: %v, %v, want %s", c.url, got, err, c.want)
		}
	}
}

func TestTargetSettings(t *testing.T) {
	t.Parallel()
	const url, function = "https://a.example/", "arn:aws:lambda:eu-central-1:123456789012:function:mail:live"
	secret := make([]byte, task.TargetSecretBytesMin)
	many := map[string]string{}
	for i := range task.TargetHeadersMax + 1 {
		many["x-"+strings.Repeat("a", i)] = "1"
	}
	for _, c := range []struct {
		target task.Target
		says   string // empty: it is fine
	}{
		{task.Target{URL: url}, ""},
		{task.Target{URL: url, Method: "PUT", Headers: map[string]string{"authorization": "Bearer x", "content-type": "text/csv"}, Secrets: [][]byte{secret, secret}, Slots: 10_000}, ""},
		{task.Target{URL: "https://{tag.host}/", Secrets: [][]byte{secret}}, ""},
		{task.Target{URL: function, Slots: 5}, ""},
		{task.Target{URL: "https://{tag.host}/", Headers: map[string]string{"a": "b"}}, "would choose who gets them"},
		{task.Target{URL: "{tag.url}", Headers: map[string]string{"a": "b"}}, "would choose who gets them"},
		{task.Target{URL: url, Method: "HEAD"}, "want one of POST"},
		{task.Target{URL: url, Slots: 10_001}, "want 1 to 10000"},
		{task.Target{URL: url, Headers: map[string]string{"Authorization": "x"}}, "small letters"},
		{task.Target{URL: url, Headers: map[string]string{"kinesin-task": "x"}}, "Kinesin sets it"},
		{task.Target{URL: url, Headers: map[string]string{"host": "x"}}, "Kinesin sets it"},
		{task.Target{URL: url, Headers: map[string]string{"x": "a\r\nb: c"}}, "without line breaks"},
		{task.Target{URL: url, Headers: many}, "at most 16"},
		{task.Target{URL: url, Secrets: [][]byte{secret, secret, secret}}, "at most 2"},
		{task.Target{URL: url, Secrets: [][]byte{secret[1:]}}, "want 24 to 64"},
		{task.Target{URL: function, Method: "POST"}, "has none"},
		{task.Target{URL: "arn:aws:sqs:eu-central-1:123456789012:mail"}, "AWS Lambda function"},
	} {
		if err := c.target.Validate(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: %v, want %q", c.target.URL, err, c.says)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"https://a.example/x", "https://A.example/y?z={key}", true},
		{"https://a.example/x", "http://a.example/x", false},
		{"https://a.example:443/x", "https://a.example/x", false},
		{"https://a.example", "https://b.example", false},
		{"https://{tag.a}", "https://{tag.b}", false},
		{"https://{tag.a}/1", "https://{tag.a}/2", true},
		{"{tag.a}", "{tag.b}", false},
	} {
		if got := (&task.Target{URL: c.a}).KeepsTo(&task.Target{URL: c.b}); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
