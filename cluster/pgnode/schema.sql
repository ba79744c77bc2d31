-- The nodes of a cluster, the leases of its elections, and its event log, for people and programs to read. Package pgnode
-- writes them. No decision reads them: the claims of the sessions decide which node leads.
-- {{schema}} stands for the name of the schema, quoted.
-- Order of locks: session, node, node_setting, lease.

CREATE SCHEMA IF NOT EXISTS {{schema}};

CREATE TABLE IF NOT EXISTS {{schema}}.node_setting (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	event_seq   bigint  NOT NULL DEFAULT 0, -- of the last event; its row lock makes the order of seq that of the commits
	incarnation bigint  NOT NULL DEFAULT 0, -- the last one given
	release     integer NOT NULL DEFAULT 0  -- of these tables and functions
) WITH (fillfactor = 50);

-- A node has registered, and its session stands or has just ended.
CREATE TABLE IF NOT EXISTS {{schema}}.node (
	id          text        COLLATE "C" PRIMARY KEY, -- the owner of its session
	session     bigint      NOT NULL,
	incarnation bigint      NOT NULL, -- distinguishes successive registrations; it only grows
	instance    text        NOT NULL, -- random, one per process
	host        text        NOT NULL,
	url         text        NOT NULL, -- where it serves HTTP, '' if nowhere
	state       text        NOT NULL, -- leader, candidate, follower or observer, by its own last report
	term        bigint      NOT NULL DEFAULT 0, -- the token of the leader that it last knew, 0 for none
	version     text        NOT NULL, -- of the program
	labels      jsonb       NOT NULL,
	goverse     text        NOT NULL, -- the release of Goverse
	heartbeat   timestamptz NOT NULL DEFAULT clock_timestamp(),
	created     timestamptz NOT NULL DEFAULT clock_timestamp(), -- it registered
	updated     timestamptz NOT NULL DEFAULT clock_timestamp()  -- something else than the heartbeat changed
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The last term of each election.
CREATE TABLE IF NOT EXISTS {{schema}}.lease (
	election text        COLLATE "C" PRIMARY KEY,
	leader   text        NOT NULL,
	session  bigint      NOT NULL,
	term     bigint      NOT NULL, -- its fencing token
	acquired timestamptz NOT NULL,
	renewed  timestamptz NOT NULL, -- by the last confirmed heartbeat that the leader has reported
	expires  timestamptz NOT NULL,
	ended    timestamptz,          -- when the term was given up, or last renewed before the leader vanished
	host     text        NOT NULL,
	url      text        NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The columns have the names of the fields of package event.
CREATE TABLE IF NOT EXISTS {{schema}}.event (
	seq         bigint           PRIMARY KEY,
	id          text             COLLATE "C" NOT NULL UNIQUE,
	type        text             NOT NULL,
	time        timestamptz      NOT NULL,
	node        text             NOT NULL,
	token       bigint           NOT NULL,
	reason      text             NOT NULL,
	peer        text             NOT NULL,
	seconds     double precision NOT NULL,
	data        json,
	recorded_by text             NOT NULL
);

-- Deletes the oldest events: beyond 500 of programs, beyond 200 of operators' requests, beyond 1000 in all, and those older than 7 days.
CREATE OR REPLACE FUNCTION {{schema}}.prune_events() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM {{schema}}.event WHERE time < clock_timestamp() - interval '7 days';
	DELETE FROM {{schema}}.event WHERE starts_with(type, 'app_') AND seq <= (
		SELECT e.seq FROM {{schema}}.event e WHERE starts_with(e.type, 'app_') ORDER BY e.seq DESC OFFSET 500 LIMIT 1);
	DELETE FROM {{schema}}.event WHERE starts_with(type, 'processor_') AND seq <= (
		SELECT e.seq FROM {{schema}}.event e WHERE starts_with(e.type, 'processor_') ORDER BY e.seq DESC OFFSET 200 LIMIT 1);
	DELETE FROM {{schema}}.event WHERE seq <= (
		SELECT e.seq FROM {{schema}}.event e ORDER BY e.seq DESC OFFSET 1000 LIMIT 1);
END $$;

-- Records an event unless there is one with its id. It returns its seq, 0 if it was there. A time of null means now.
CREATE OR REPLACE FUNCTION {{schema}}.record_event(event_id text, event_type text, event_time timestamptz, event_node text,
	event_token bigint, event_reason text, event_peer text, event_seconds double precision, event_data json,
	event_by text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	s bigint;
BEGIN
	PERFORM 1 FROM {{schema}}.node_setting FOR UPDATE;
	IF EXISTS (SELECT 1 FROM {{schema}}.event WHERE id = event_id) THEN
		RETURN 0;
	END IF;
	UPDATE {{schema}}.node_setting SET event_seq = event_seq + 1 RETURNING event_seq INTO STRICT s;
	INSERT INTO {{schema}}.event (seq, id, type, time, node, token, reason, peer, seconds, data, recorded_by)
		VALUES (s, event_id, event_type, coalesce(event_time, clock_timestamp()), event_node, event_token, event_reason,
			event_peer, event_seconds, event_data, event_by);
	IF s % 20 = 0 THEN
		PERFORM {{schema}}.prune_events();
	END IF;
	PERFORM pg_notify('goverse_events', '');
	RETURN s;
END $$;

-- Deletes the row of a node, which the caller has locked and whose session has ended, and records what follows.
CREATE OR REPLACE FUNCTION {{schema}}.delete_lost(n {{schema}}.node, lost_reason text, recorder text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	l {{schema}}.lease;
BEGIN
	PERFORM 1 FROM {{schema}}.node_setting FOR UPDATE;
	DELETE FROM {{schema}}.node WHERE id = n.id;
	PERFORM {{schema}}.record_event('node_lost-' || n.incarnation, 'node_lost', NULL, n.id, 0, '', '', 0, NULL, recorder);
	FOR l IN SELECT * FROM {{schema}}.lease WHERE session = n.session AND ended IS NULL FOR UPDATE LOOP
		UPDATE {{schema}}.lease SET ended = l.renewed, expires = least(l.expires, clock_timestamp())
			WHERE election = l.election;
		PERFORM {{schema}}.record_event('leader_lost-' || l.term, 'leader_lost', NULL, l.leader, l.term, lost_reason, '',
			greatest(0, extract(epoch FROM clock_timestamp() - l.renewed)::double precision), NULL, recorder);
	END LOOP;
	PERFORM pg_notify('goverse_nodes', '');
END $$;

-- Deletes a node whose session has ended. It reports whether this call has. A row that another transaction has locked
-- stays: that one deletes it, or the node registers again.
CREATE OR REPLACE FUNCTION {{schema}}.remove_node(node_id text, dead_session bigint, lost_reason text, recorder text)
	RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	n {{schema}}.node;
BEGIN
	SELECT * INTO n FROM {{schema}}.node WHERE id = node_id AND session = dead_session FOR UPDATE SKIP LOCKED;
	IF NOT FOUND OR EXISTS (SELECT 1 FROM {{schema}}.session WHERE id = dead_session) THEN
		RETURN false;
	END IF;
	PERFORM {{schema}}.delete_lost(n, lost_reason, recorder);
	RETURN true;
END $$;

-- Registers a node on its session. The incarnation is 0 if the session has ended, or if another one stands that has
-- registered the id: holder is then its host. A session has one node at a time, so another one that registered on the
-- same session has left and could not delete its row.
CREATE OR REPLACE FUNCTION {{schema}}.register_node(node_id text, session_id bigint, new_instance text, new_host text,
	new_url text, new_state text, new_version text, new_labels jsonb, new_goverse text, lost_reason text,
	OUT incarnation bigint, OUT holder text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	n {{schema}}.node;
BEGIN
	register_node.incarnation := 0;
	PERFORM 1 FROM {{schema}}.session WHERE id = session_id FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT * INTO n FROM {{schema}}.node WHERE id = node_id FOR UPDATE;
	IF FOUND THEN
		IF n.session = session_id AND n.instance = new_instance THEN
			register_node.incarnation := n.incarnation;
			RETURN;
		END IF;
		IF n.session = session_id THEN
			PERFORM {{schema}}.leave_node(n.id, n.incarnation);
		ELSIF EXISTS (SELECT 1 FROM {{schema}}.session WHERE id = n.session) THEN
			register_node.holder := n.host;
			RETURN;
		ELSE
			PERFORM {{schema}}.delete_lost(n, lost_reason, node_id);
		END IF;
	END IF;
	UPDATE {{schema}}.node_setting s
		SET incarnation = greatest(s.incarnation + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
		RETURNING s.incarnation INTO STRICT register_node.incarnation;
	INSERT INTO {{schema}}.node (id, session, incarnation, instance, host, url, state, version, labels, goverse)
		VALUES (node_id, session_id, register_node.incarnation, new_instance, new_host, new_url, new_state, new_version,
			new_labels, new_goverse)
		ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN -- another process has just registered the id
		register_node.incarnation := 0;
		register_node.holder := '';
		RETURN;
	END IF;
	PERFORM {{schema}}.record_event('node_joined-' || register_node.incarnation, 'node_joined', NULL, node_id, 0, '', '', 0,
		NULL, node_id);
	PERFORM pg_notify('goverse_nodes', '');
END $$;

-- Deletes the row of a node that leaves.
CREATE OR REPLACE FUNCTION {{schema}}.leave_node(node_id text, node_incarnation bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM {{schema}}.node WHERE id = node_id AND incarnation = node_incarnation;
	IF FOUND THEN
		PERFORM {{schema}}.record_event('node_left-' || node_incarnation, 'node_left', NULL, node_id, 0, '', '', 0, NULL,
			node_id);
		PERFORM pg_notify('goverse_nodes', '');
	END IF;
END $$;

-- The time since which an election has no leader, at most since the oldest present node registered.
CREATE OR REPLACE FUNCTION {{schema}}.leaderless_since(l {{schema}}.lease) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
	SELECT greatest(coalesce(l.ended, l.renewed), (SELECT min(n.created) FROM {{schema}}.node n))
$$;

-- Records a new term in the lease of an election, if it is newer than that in the row or stands. Durations are in
-- microseconds before now, and the deadline after the renewal. former is the token of the former term if its leader
-- stands and has not reported its end yet.
CREATE OR REPLACE FUNCTION {{schema}}.begin_term(of_election text, node_id text, node_session bigint, new_term bigint,
	acquired_us bigint, renewed_us bigint, deadline_us bigint, new_host text, new_url text, lost_reason text,
	OUT former bigint, OUT former_leader text)
LANGUAGE plpgsql AS $$
DECLARE
	l {{schema}}.lease;
	at timestamptz := clock_timestamp();
	acquired timestamptz := at - acquired_us * interval '1 microsecond';
	renewed timestamptz := at - renewed_us * interval '1 microsecond';
	since timestamptz;
	secs double precision := 0;
BEGIN
	former := 0;
	former_leader := '';
	PERFORM 1 FROM {{schema}}.node_setting FOR UPDATE;
	SELECT * INTO l FROM {{schema}}.lease WHERE election = of_election FOR UPDATE;
	IF l.term IS NOT NULL THEN
		IF l.term = new_term OR l.term > new_term
			AND NOT EXISTS (SELECT 1 FROM {{schema}}.claim c WHERE c.session = node_session AND c.token = new_term) THEN
			RETURN;
		END IF;
		IF l.ended IS NOT NULL THEN
			since := {{schema}}.leaderless_since(l);
		ELSIF NOT EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = l.session) THEN
			since := {{schema}}.leaderless_since(l);
			PERFORM {{schema}}.record_event('leader_lost-' || l.term, 'leader_lost', least(at, acquired), l.leader, l.term,
				lost_reason, '', greatest(0, extract(epoch FROM at - l.renewed)::double precision), NULL, node_id);
		ELSE
			former := l.term;
			former_leader := l.leader;
		END IF;
		secs := coalesce(greatest(0, extract(epoch FROM acquired - since)::double precision), 0);
		IF secs >= 1 THEN
			PERFORM {{schema}}.record_event('cluster_degraded-' || l.term, 'cluster_degraded', since, '', l.term, '', '', 0,
				NULL, node_id);
		END IF;
	END IF;
	INSERT INTO {{schema}}.lease AS t (election, leader, session, term, acquired, renewed, expires, host, url)
		VALUES (of_election, node_id, node_session, new_term, acquired, renewed,
			renewed + deadline_us * interval '1 microsecond', new_host, new_url)
		ON CONFLICT (election) DO UPDATE SET leader = excluded.leader, session = excluded.session, term = excluded.term,
			acquired = excluded.acquired, renewed = excluded.renewed, expires = excluded.expires, ended = NULL,
			host = excluded.host, url = excluded.url;
	PERFORM {{schema}}.record_event('leader_elected-' || new_term, 'leader_elected', acquired, node_id, new_term, '', '',
		secs, NULL, node_id);
	IF EXISTS (SELECT 1 FROM {{schema}}.event WHERE id = 'cluster_degraded-' || coalesce(l.term, 0)) THEN
		PERFORM {{schema}}.record_event('cluster_recovered-' || new_term, 'cluster_recovered', acquired, node_id, new_term,
			'', '', secs, NULL, node_id);
	END IF;
	PERFORM pg_notify('goverse_nodes', '');
END $$;

-- Records the end of a term: ended_us microseconds ago, or now.
CREATE OR REPLACE FUNCTION {{schema}}.end_term(of_election text, node_id text, old_term bigint, ended_us bigint,
	why text, recorder text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	at timestamptz := clock_timestamp() - ended_us * interval '1 microsecond';
BEGIN
	PERFORM 1 FROM {{schema}}.node_setting FOR UPDATE;
	UPDATE {{schema}}.lease SET ended = at, expires = least(expires, at)
		WHERE election = of_election AND term = old_term AND ended IS NULL;
	PERFORM {{schema}}.record_event('leader_lost-' || old_term, 'leader_lost', at, node_id, old_term, why, '', 0, NULL,
		recorder);
	PERFORM pg_notify('goverse_nodes', '');
END $$;

-- Records that an election has had no leader for a second, if that is so. It reports whether that is in the log. It is not
-- known while the session of the last leader stands and the end of its term is not recorded. claim_name is the name of the
-- election's claims.
CREATE OR REPLACE FUNCTION {{schema}}.note_leaderless(of_election text, claim_name text, recorder text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	l {{schema}}.lease;
	since timestamptz;
BEGIN
	PERFORM 1 FROM {{schema}}.node_setting FOR UPDATE;
	IF EXISTS (SELECT 1 FROM {{schema}}.claim c JOIN {{schema}}.session s ON s.id = c.session
		WHERE c.name = claim_name AND c.token IS NOT NULL) THEN
		RETURN false;
	END IF;
	SELECT * INTO l FROM {{schema}}.lease WHERE election = of_election;
	since := {{schema}}.leaderless_since(l);
	IF since IS NULL OR since > clock_timestamp() - interval '1 second'
		OR l.ended IS NULL AND EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = l.session) THEN
		RETURN false;
	END IF;
	PERFORM {{schema}}.record_event('cluster_degraded-' || coalesce(l.term, 0), 'cluster_degraded', since, '',
		coalesce(l.term, 0), '', '', 0, NULL, recorder);
	RETURN true;
END $$;

DO $$
BEGIN
	INSERT INTO {{schema}}.node_setting DEFAULT VALUES ON CONFLICT DO NOTHING;
	UPDATE {{schema}}.node_setting SET release = {{release}};
END $$;
