package ledger

import (
	"slices"
	"testing"
	"time"
)

func TestFaultsSpoilWhatTheyNameAndAsOftenAsTheySay(t *testing.T) {
	var journal Journal
	journal.Spoil(Fault{Request: "POST ", Status: 503, Times: 2})
	for i, test := range []struct {
		request string
		spoilt  bool
	}{{"GET /a", false}, {"POST /a", true}, {"POST /b", true}, {"POST /a", false}} {
		if got := journal.Spoilt(test.request); (got != nil) != test.spoilt {
			t.Errorf("request %d: %+v", i, got)
		}
	}
}

func TestAJournalRemembers(t *testing.T) {
	var journal Journal
	journal.Count("GET /a")
	journal.Count("GET /a")
	journal.CountMade("networks")
	journal.Missing("GET /nosuch")
	if journal.Requests()["GET /a"] != 2 || journal.Created()["networks"] != 1 || !slices.Equal(journal.Unknown(), []string{"GET /nosuch"}) {
		t.Errorf("%v, %v, %v", journal.Requests(), journal.Created(), journal.Unknown())
	}
}

func TestOperationsTakeTheirTime(t *testing.T) {
	now := time.Unix(0, 0)
	book := NewBook(time.Minute, func() time.Time { return now })
	made := book.Begin("p/networks/a", func() { book.Make("p/networks/a", Document{"size": 1}) })
	if made.Done() || len(book.Inventory()) != 0 {
		t.Errorf("it is there at once: %v", book.Inventory())
	}
	now = now.Add(time.Minute)
	if there := book.Inventory(); there["networks"] != 1 || !book.Operation(made.Name).Done() {
		t.Errorf("a minute later there is %v", there)
	}
	if book.Change("networks", func(d Document) { d["size"] = 2 }) != 1 || book.Resources["p/networks/a"]["size"] != 2 {
		t.Errorf("it was not changed: %v", book.Resources)
	}
	if book.Operation("operation-9") != nil {
		t.Error("there is an operation that nobody has begun")
	}
}
