//go:build !windows

package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeyring(t *testing.T) {
	t.Parallel()
	s, _ := newBufferedSite(t)
	keys := s.objects("keyring", "list")
	if len(keys) != 1 || fmt.Sprint(keys[0]) != "map[number:1 state:sealing]" {
		t.Errorf("%v", keys)
	}
	old := s.must("inbound", "key")
	added, _ := s.object("keyring", "rotate")["key"].(map[string]any)
	if added["number"] != float64(2) || added["state"] != "waiting" || added["created"] == nil || added["seals_from"] == nil {
		t.Errorf("%v", added)
	}
	s.do("keyring", "rotate").check(t, "again", 1, "key 2 was added at ", "seals from", "rotate again after that")
	keys = s.objects("keyring", "list")
	if len(keys) != 2 || keys[0]["state"] != "sealing" || keys[0]["retired"] != added["seals_from"] || keys[0]["messages_until"] == nil ||
		keys[0]["verifies_until"] == nil || keys[1]["state"] != "waiting" || keys[1]["retired"] != nil {
		t.Errorf("%v", keys)
	}
	table := s.must("keyring", "list")
	if lines := strings.Split(table, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "NUMBER  STATE") || !strings.HasPrefix(lines[1], "1       sealing  -") {
		t.Errorf("%s", table)
	}
	if now := s.must("inbound", "key"); now != old {
		t.Error("the inbound key changes before the new key seals")
	}
	for _, args := range [][]string{{"keyring", "list"}, {"keyring", "list", "-o", "json"}} {
		if text := s.must(args...); strings.Contains(text, old) || strings.Contains(text, "secret") {
			t.Errorf("%v prints a secret", args)
		}
	}
	s.do("keyring").check(t, "no command", 2, "a command is missing")
	s.do("keyring", "list", "x").check(t, "an argument", 2, "x")
}

func TestSenders(t *testing.T) {
	t.Parallel()
	s, _ := newBufferedSite(t)
	s.do("inbound", "sender", "list").check(t, "none", 0, "there are no senders")
	if got := s.must("inbound", "sender", "list", "-o", "json"); got != `{"senders":[]}` {
		t.Errorf("%q", got)
	}
	key := s.must("inbound", "key", "--sender", "shop", "--lambda", "mail-*", "--lambda", "invoice")
	if !strings.HasPrefix(key, "1.shop.") || s.object("inbound", "key", "--sender", "shop")["key"] != key {
		t.Errorf("%d characters", len(key))
	}
	for what, c := range map[string]struct {
		args []string
		exit int
		say  string
	}{
		"other lambdas":   {[]string{"inbound", "key", "--sender", "shop", "--lambda", "*"}, 1, "sender shop exists for lambdas [invoice mail-*]"},
		"no lambdas":      {[]string{"inbound", "key", "--sender", "new"}, 1, "want 1 to 100 patterns"},
		"a pattern":       {[]string{"inbound", "key", "--sender", "new", "--lambda", "a b"}, 1, "stands for any characters"},
		"a name":          {[]string{"inbound", "key", "--sender", "a.b", "--lambda", "*"}, 1, "sender name"},
		"no sender":       {[]string{"inbound", "key", "--lambda", "*"}, 2, "--sender"},
		"an empty sender": {[]string{"inbound", "key", "--sender", ""}, 2, "--sender"},
		"an unknown one":  {[]string{"inbound", "sender", "revoke", "nobody"}, 1, "no sender has that name"},
		"none to revoke":  {[]string{"inbound", "sender", "revoke"}, 2, "NAME"},
	} {
		s.do(c.args...).check(t, what, c.exit, c.say)
	}
	all := s.objects("inbound", "sender", "list")
	if len(all) != 1 || all[0]["name"] != "shop" || fmt.Sprint(all[0]["lambdas"]) != "[invoice mail-*]" || all[0]["created"] == nil || all[0]["revoked"] != nil || len(all[0]) != 3 {
		t.Errorf("%v", all)
	}
	if got := s.must("inbound", "sender", "revoke", "shop"); got != "revoked sender shop" {
		t.Errorf("%q", got)
	}
	table := s.must("inbound", "sender", "list")
	if !strings.Contains(table, "shop  invoice,mail-*  20") || strings.Contains(table, " -") {
		t.Errorf("%s", table)
	}
	s.do("inbound", "key", "--sender", "shop").check(t, "revoked", 1, "sender shop was revoked at", "choose another name")
}
