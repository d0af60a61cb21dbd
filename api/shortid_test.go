package api_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/api"
)

func TestAShortIDNamesOneOfThoseThatAreShown(t *testing.T) {
	for want, ids := range map[int][]string{
		14: {"k1AZLwwSo7fE2OX2BxgpOktQ", "k1AZLwwSo8fE2OX2BxgpOktQ", ""},
		18: {"k1AZLwwSo7fE2OX2BxgpOktQ", "k3AZLwwSo7fE2OX2BxgpOktQ", "k1AZLwwSo7fE2OX2BYgpOktQ"},
		25: {"k1AZLwwSo7fE2OX2BxgpOktQ", "k1AZLwwSo7fE2OX2BxgpOktQA"},
	} {
		ids = append(ids, ids[0])
		chars, seen := api.ShortIDChars(ids), map[string]string{}
		for _, id := range ids {
			short := api.ShortID(id, chars)
			if whole, is := seen[short]; chars != want || is && whole != id {
				t.Errorf("%d characters, want %d: %q is %q and %q", chars, want, short, whole, id)
			}
			seen[short] = id
		}
	}
}
