package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Headers and secrets of a target are written and never read, and stay with the host for which they were given.
func TestTargetOfALambda(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	one, two := file("one", secret+"\n"), file("two", secret+"\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n")
	sets := file("set.yaml", "lambdas:\n- name: mail\n  target: {url: 'https://a.example/tasks/{key}', slots: 9}\n")
	leaky := file("leaky.yaml", "lambdas:\n- name: mail\n  target_secrets: ["+secret+"]\n")
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"lambda create mail --target https://a.example/tasks --target-header Authorization:Bearer-hush --target-header x-a:1 --target-secret-file " + two, 0, "target secrets 2 "},
		{"lambda get mail", 0, "target headers authorization,x-a "},
		{"lambda set mail --target-method PUT", 0, "PUT https://a.example/tasks "},
		{"lambda set mail --target https://a.example/{key}", 0, "target headers authorization,x-a "},
		{"lambda set mail --max-attempts 3", 0, "target secrets 2 "},
		{"lambda set mail --target-secret-file " + one, 0, "target secrets 1 "},
		{"lambda set mail --target https://b.example/", 1, "for another host"},
		{"lambda set mail --target http://a.example/", 1, "for another host"},
		{"lambda set mail --target https://b.example/ --target-header x-a:2", 1, "for another host"},
		{"lambda set mail --target https://b.example/ --target-header x-a:2 --target-secret-file " + two, 0, "target headers x-a "},
		{"lambda set mail --target https://{tag.host}/ --target-header x-a:2 --target-secret-file " + two, 1, "would choose who gets them"},
		{"lambda set mail --target https://{tag.host}/ --reset target_headers,target_secrets", 0, "https://{tag.host}/ "},
		{"apply -f " + sets, 0, "target"},
		{"apply -f " + sets + " --dry-run", 0, "no changes"},
		{"lambda get mail", 0, "9 on each server"},
		{"apply -f " + leaky, 2, "target_secrets"},
		{"lambda set mail --reset target", 0, "timeout"},
		{"lambda set mail --target-slots 5", 2, "want its URL too"},
		{"lambda set mail --target-header x:1", 1, "without a target"},
		{"lambda set mail --target ftp://a.example/", 1, "want http or https"},
		{"lambda set mail --target arn:aws:lambda:eu-central-1:123456789012:function:mail --target-slots 5", 0, "function:mail target slots 5"},
		{"lambda set mail --target https://a.example/ --target-async", 1, "only for an AWS Lambda function"},
		{"lambda set mail --target https://a.example/ --target-slots 5", 0, "5 on each server"},
		{"lambda create out --fifo", 1, "only for mode deliver"},
		{"lambda set mail --fifo", 2, "fixed at creation"},
		{"lambda create out --mode deliver --target https://a.example/", 1, "mode deliver"},
		{"lambda set mail --target-header hush-hush", 2, "want 'NAME: VALUE'"},
		{"lambda set mail --target ", 2, "--reset target"},
	} {
		o := s.do(strings.Split(c.line, " ")...)
		o.check(t, c.line, c.code)
		if !strings.Contains(strings.Join(strings.Fields(o.stdout+o.stderr), " "), c.says) {
			t.Errorf("%s: %q is not in %s%s", c.line, c.says, o.stdout, o.stderr)
		}
		if strings.Contains(o.stdout+o.stderr, "hush") || strings.Contains(o.stdout+o.stderr, secret) {
			t.Errorf("%s: shows a secret: %s%s", c.line, o.stdout, o.stderr)
		}
	}
	for _, text := range []string{s.must("audit", "list", "-o", "json"), s.must("lambda", "list", "-o", "json")} {
		if strings.Contains(text, "hush") || strings.Contains(text, secret) || !strings.Contains(text, `"target"`) {
			t.Errorf("%s", text)
		}
	}
}
