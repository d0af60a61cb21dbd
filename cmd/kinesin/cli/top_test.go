package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if text := s.must("top"); !strings.Contains(text, "there are no lambdas yet") {
		t.Error(text)
	}
	s = newSite(t) // what is due is counted again after a while
	s.must("lambda", "create", "mail")
	s.must("schedule", "mail", "--in", "50m")
	if text := s.must("top"); !strings.Contains(text, "kinesin  1 lambdas") || !strings.Contains(text, "\nmail ") ||
		!strings.Contains(text, "  1h 1  1d 1") || !strings.Contains(text, "store takes tasks  none without an owner") || !strings.Contains(text, "late p50/95/99  1m -/-/-") {
		t.Error(text)
	}
	var seen struct {
		Lambdas  []map[string]any `json:"lambdas"`
		Overview struct {
			Windows []map[string]any `json:"windows"`
			Due     []struct {
				Within string `json:"within"`
				Tasks  int64  `json:"tasks"`
			} `json:"due"`
			Installation map[string]any `json:"installation"`
		} `json:"overview"`
	}
	if err := json.Unmarshal([]byte(s.must("top", "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	if all := seen.Lambdas; len(all) != 1 || all[0]["lambda"] != "mail" || all[0]["workers"] != 0.0 {
		t.Errorf("%v", all)
	}
	o := seen.Overview
	if len(o.Windows) != 3 || o.Windows[0]["asked"] != "1m" || len(o.Due) != 4 || o.Due[2].Within != "1h" || o.Due[2].Tasks != 1 || o.Installation["store_full"] != false {
		t.Errorf("%+v", seen)
	}
}
