package catalog

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kinesin-io/kinesin/store"
)

// TestStoredForm has a row with all settings, as versions before this one wrote it, read and written again.
func TestStoredForm(t *testing.T) {
	const stored = `{"ref":7,"mode":"managed","priorities":["now","later"],"shards":4,"max_attempts":3,"timeout_ns":60000000000,"backoff_min_ns":1000000,"backoff_max_ns":5000000000,` +
		`"retention_ns":3600000000000,"key_retention_ns":120000000000,"poison_bound":5,"start_within_ns":1000000,"limit_key_concurrency":6,"limit_key_rate":1.5,"limit_key_set_us":1700000000000000,` +
		`"priority_weights":[8,1],"retry_share":0.2,"breaker":{"failures":0.5,"window_ns":60000000000},"created_us":1600000000000000,"owner":"crm","deleting":true,` +
		`"shard_history":[{"count":2,"from_us":0},{"count":4,"from_us":1650000000000000}],"registration":"a","registration_made":"making",` +
		`"registered_crons":["nightly"],"dropping":true,"marked_us":1700000000000001,"of_a_newer_version":true}`
	e, err := decode(store.Control{Kind: Kind, Name: "mail", Version: 9, Value: []byte(stored)})
	if err != nil || e.Name != "mail" || e.Timeout.Minutes() != 1 || e.Breaker.Failures != 0.5 || !e.Dropping {
		t.Fatalf("%+v, %v", e.Lambda, err)
	}
	row, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := json.Unmarshal([]byte(stored), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(row.Value, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
