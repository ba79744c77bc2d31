//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// journalSQL makes PostgreSQL record all changes of the controller's tables, with their transactions.
const journalSQL = `
create table journal (n bigserial primary key, xid xid8 not null default pg_current_xact_id(),
	what text not null, key text not null, value text not null);
create function journal_write() returns trigger language plpgsql as $$
begin
	insert into journal (what, key, value) values ('write', new.id, new.answer);
	return null;
end $$;
create function journal_config() returns trigger language plpgsql as $$
begin
	if tg_op = 'DELETE' then
		insert into journal (what, key, value) values ('deleted', old.name, '');
	else
		insert into journal (what, key, value) values ('put', new.name, new.document);
	end if;
	return null;
end $$;
create trigger journal after insert or update on controller_writes for each row execute function journal_write();
create trigger journal after insert or update or delete on controller_configs
	for each row execute function journal_config();`

// journalEntry is one change, in the order in which they took place.
type journalEntry struct {
	Xid              string
	What, Key, Value string // write: id and answer; put: name and document; deleted: name
}

func readJournal(t *testing.T, conn *pgx.Conn) []journalEntry {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select xid::text, what, key, value from journal order by n")
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[journalEntry])
	require.NoError(t, err)
	return all
}

// judgeJournal returns the faults in a journal. Each acknowledged write must have been carried out once, as answered.
// Each change of a document must belong to the write of its transaction. The terms must follow one another.
func judgeJournal(journal []journalEntry, acknowledged map[string]writeAnswer) error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	byID, byXid, changes := map[string]writeAnswer{}, map[string]writeAnswer{}, map[string]int{}
	nodes := map[int64]string{} // by token
	newest := int64(0)
	for _, e := range journal {
		if e.What != "write" {
			continue
		}
		var a writeAnswer
		if err := json.Unmarshal([]byte(e.Value), &a); err != nil {
			say("%s: %w", e.Key, err)
			continue
		}
		if _, twice := byID[a.ID]; twice {
			say("write %s took effect twice", a.ID)
		}
		if a.Token < newest {
			say("write %s in the term %d, after a write in the term %d", a.ID, a.Token, newest)
		}
		if other := nodes[a.Token]; other != "" && other != a.Node {
			say("both %s and %s wrote in the term %d", other, a.Node, a.Token)
		}
		newest = max(newest, a.Token)
		byID[a.ID], byXid[e.Xid], nodes[a.Token] = a, a, a.Node
	}
	for _, e := range journal {
		if e.What == "write" {
			continue
		}
		a, ok := byXid[e.Xid]
		var d document
		switch {
		case !ok || a.Name != e.Key || (a.Done == "deleted") != (e.What == "deleted"):
			say("%s was %s by no write", e.Key, e.What)
			continue
		case e.What == "put":
			if err := json.Unmarshal([]byte(e.Value), &d); err != nil || d.ID != a.ID {
				say("%s holds %s, but write %s put it", e.Key, e.Value, a.ID)
			}
		}
		changes[a.ID]++
	}
	for id, a := range byID {
		if a.Done != "deleted" && changes[id] != 1 || changes[id] > 1 {
			say("write %s changed %d documents", id, changes[id])
		}
	}
	for id, a := range acknowledged {
		if byID[id] != a {
			say("write %s was acknowledged as %+v, and carried out as %+v", id, a, byID[id])
		}
	}
	return errors.Join(wrong...)
}

// The judge finds faults.
func TestJudgeJournal(t *testing.T) {
	const put1 = `{"id":"1","name":"a","done":"put","node":"n1","token":5}`
	const put2 = `{"id":"2","name":"a","done":"put","node":"n2","token":6}`
	first := []journalEntry{{"10", "write", "1", put1}, {"10", "put", "a", `{"id":"1"}`}}
	second := []journalEntry{{"11", "write", "2", put2}, {"11", "put", "a", `{"id":"2"}`}}
	answer := writeAnswer{ID: "1", Name: "a", Done: "put", Node: "n1", Token: 5}
	for want, c := range map[string]struct {
		journal      []journalEntry
		acknowledged map[string]writeAnswer
	}{
		"": {journal: append(append([]journalEntry(nil), first...), second...),
			acknowledged: map[string]writeAnswer{"1": answer}},
		"took effect twice":         {journal: append(append([]journalEntry(nil), first...), first...)},
		"after a write in the term": {journal: append(append([]journalEntry(nil), second...), first...)},
		"both n3 and n1": {journal: append([]journalEntry{{"9", "write", "3",
			`{"id":"3","name":"a","done":"deleted","node":"n3","token":5}`}}, first...)},
		"by no write":         {journal: []journalEntry{{"12", "put", "a", `{"id":"1"}`}}},
		"but write 1 put it":  {journal: []journalEntry{first[0], {"10", "put", "a", `{"id":"9"}`}}},
		"changed 0 documents": {journal: first[:1]},
		"was acknowledged":    {acknowledged: map[string]writeAnswer{"1": answer}},
	} {
		err := judgeJournal(c.journal, c.acknowledged)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
