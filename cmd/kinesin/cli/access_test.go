package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail-a")
	s.must("lambda", "create", "bill")
	made := s.do("token", "create", "team", "--grant", "schedule:mail-*", "--grant", "read:mail-*", "--expires", "720h")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(made.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if made.code != 0 || made.stderr != "" || strings.Count(made.stdout, "\n") != 1 || !strings.HasPrefix(made.stdout, "kinesin_") {
		t.Errorf("%+v", made)
	}
	id := s.must("schedule", "mail-a", "--in", "1h", "--payload", "Ada", "--token-file", file)
	s.do("schedule", "bill", "--token-file", file).check(t, "schedule", 1, "permission denied", "schedule on lambda bill")
	s.do("cancel", id, "--token-file", file).check(t, "cancel", 1, "permission denied", "cancel on lambda mail-a")
	s.do("get", id, "--payload", "--token-file", file).check(t, "get", 1, "read-payload on lambda mail-a")
	for shown, of := range map[string]string{"payload       3 bytes": file, "payload       Ada": ""} {
		if text := s.must("get", id, "--token-file", of); !strings.Contains(text, shown) {
			t.Error(text)
		}
	}
	s.do("token", "list", "--token-file", file).check(t, "token list", 1, "admin on all lambdas")
	s.do("token", "create", "team", "--grant", "read:*").check(t, "the same name", 1, "name is taken")
	if text := s.must("lambda", "list", "--token-file", file); strings.Contains(text, "bill") || !strings.Contains(text, "mail-a") {
		t.Error(text)
	}
	all := s.objects("token", "list")
	if len(all) != 1 || all[0]["name"] != "team" || all[0]["secret"] != nil || all[0]["created_by"] != "anonymous" || all[0]["expires"] == nil {
		t.Errorf("%v", all)
	}
	if text := s.must("token", "list"); !strings.Contains(text, "active") {
		t.Error(text)
	}
	s.must("token", "revoke", "team")
	s.do("get", id, "--token-file", file).check(t, "a revoked token", 1, "was revoked at")
	s.do("token", "revoke", "nobody").check(t, "revoke", 1, "nobody")
	for _, args := range [][]string{
		{"token", "create"},
		{"token", "create", "a", "b", "--grant", "read:*"},
		{"token", "create", "a"},
		{"token", "create", "a b", "--grant", "read:*"},
		{"token", "create", "a", "--grant", "raed:*"},
		{"token", "create", "a", "--grant", "read:*", "--expires", "1s"},
		{"token", "list", "x"},
		{"token", "revoke"},
		{"token"},
		{"policy"},
		{"policy", "check"},
		{"audit", "x"},
		{"audit", "list", "x"},
		{"audit", "list", "--since", "x"},
		{"audit", "verify", "x"},
	} {
		s.do(args...).check(t, args, 2)
	}
}

func TestAuditCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("lambda", "delete", "mail")
	lines := strings.Split(strings.TrimSpace(s.must("audit", "list", "--since", "1h", "-o", "json")), "\n")
	if len(lines) != 2 {
		t.Fatal(lines)
	}
	for i, action := range []string{"lambda.create", "lambda.delete"} {
		var r map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &r); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]any{"identity": "anonymous", "from": "127.0.0.1", "action": action, "target": "mail", "outcome": "ok"} {
			if r[name] != want {
				t.Errorf("%s is %v, want %v", name, r[name], want)
			}
		}
		if r["at"] == nil {
			t.Error(lines[i])
		}
	}
	if text := s.must("audit", "list"); !strings.Contains(text, "lambda.delete") || !strings.Contains(text, "OUTCOME") {
		t.Error(text)
	}
	if text := s.must("audit", "verify"); !strings.Contains(text, "2 records, 1 to 2, are as they were written; head ") {
		t.Error(text)
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	for _, c := range []struct {
		allow string
		code  int
		says  string
	}{
		{"read:mail-*", 0, ""}, {"raed:mail-*", 1, `unknown verb "raed"`}, {"read:*mail", 1, "a star at the end only"},
	} {
		text := "identities:\n  - name: team\n    token_sha256: " + strings.Repeat("00", 32) + "\ngrants:\n  - identity: team\n    allow: [\"" + c.allow + "\"]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := run(t.Context(), nil, "", "policy", "check", file)
		o.check(t, c.allow, c.code, c.says)
		if c.code == 0 && !strings.Contains(o.stdout, "read:mail-*") {
			t.Error(o.stdout)
		}
	}
	run(t.Context(), nil, "", "policy", "check", file+"x").check(t, "no file", 1, file+"x")
}
