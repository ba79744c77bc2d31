-- Sessions, and the claims that processes have on names, such as those of locks. Package claims describes the protocol.
-- Programs only call the functions. People may read the tables, and end a session by deleting its row.
-- {{schema}} stands for the name of the schema, quoted.

CREATE SCHEMA IF NOT EXISTS {{schema}};

-- One row at most: the time since the server started, was promoted, or recovered from a crash. The table is not logged, so
-- it is empty after a crash and on a standby that was promoted. id and started tell a restart.
CREATE UNLOGGED TABLE IF NOT EXISTS {{schema}}.epoch (
	one     boolean     PRIMARY KEY DEFAULT true CHECK (one),
	id      bigint      NOT NULL,
	started timestamptz NOT NULL,
	open    boolean     NOT NULL DEFAULT false, -- claims are granted
	wait_us bigint      NOT NULL DEFAULT 0      -- the longest deadline of a session before it
);

CREATE TABLE IF NOT EXISTS {{schema}}.setting (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	token_floor bigint  NOT NULL DEFAULT 0, -- the largest token of the names whose rows were deleted
	release     integer NOT NULL DEFAULT 0  -- of these tables and functions
);

CREATE TABLE IF NOT EXISTS {{schema}}.session (
	id          bigint      PRIMARY KEY, -- its connection holds the advisory lock of this number
	epoch       bigint      NOT NULL,
	beat        bigint      NOT NULL DEFAULT 0,
	deadline_us bigint      NOT NULL,
	owner       text        NOT NULL,
	opened      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE IF NOT EXISTS {{schema}}.name (
	name   text        COLLATE "C" PRIMARY KEY,
	places bigint      NOT NULL, -- drawn so far
	token  bigint      NOT NULL, -- the last one drawn
	used   timestamptz NOT NULL
) WITH (fillfactor = 70);

-- A claim with a token is granted.
CREATE TABLE IF NOT EXISTS {{schema}}.claim (
	name    text    COLLATE "C" NOT NULL,
	place   bigint  NOT NULL,
	session bigint  NOT NULL,
	seq     bigint  NOT NULL, -- the session's number for it
	shared  boolean NOT NULL,
	token   bigint,
	PRIMARY KEY (name, place)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS claim_session ON {{schema}}.claim (session, seq);
CREATE INDEX IF NOT EXISTS claim_waiting ON {{schema}}.claim (name, place) WHERE token IS NULL;

-- The epoch, with its id if it has none yet.
CREATE OR REPLACE FUNCTION {{schema}}.enter_epoch(new_id bigint, OUT id bigint, OUT open boolean, OUT wait_us bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	SELECT e.id, e.open, e.wait_us INTO enter_epoch.id, enter_epoch.open, enter_epoch.wait_us
		FROM {{schema}}.epoch e WHERE e.started = pg_postmaster_start_time();
	IF FOUND THEN
		RETURN;
	END IF;
	INSERT INTO {{schema}}.epoch AS e (id, started, wait_us)
		SELECT new_id, pg_postmaster_start_time(), coalesce(max(s.deadline_us), 0) FROM {{schema}}.session s
		ON CONFLICT (one) DO UPDATE
			SET id = excluded.id, started = excluded.started, open = false, wait_us = excluded.wait_us
		WHERE e.started <> excluded.started;
	SELECT e.id, e.open, e.wait_us INTO STRICT enter_epoch.id, enter_epoch.open, enter_epoch.wait_us
		FROM {{schema}}.epoch e;
END $$;

-- Opens an epoch, which ends all sessions of earlier ones.
CREATE OR REPLACE FUNCTION {{schema}}.open_epoch(epoch_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM {{schema}}.setting FOR UPDATE;
	UPDATE {{schema}}.epoch SET open = true
		WHERE id = epoch_id AND NOT open AND started = pg_postmaster_start_time();
	IF NOT FOUND THEN
		RETURN;
	END IF;
	DELETE FROM {{schema}}.session WHERE epoch <> epoch_id;
END $$;

-- Makes the row of a session whose connection holds its advisory lock.
CREATE OR REPLACE FUNCTION {{schema}}.open_session(session_id bigint, deadline bigint, session_owner text, new_epoch bigint)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM {{schema}}.setting FOR UPDATE; -- before the epoch is read: open_epoch may be about to delete sessions
	INSERT INTO {{schema}}.session (id, epoch, deadline_us, owner)
		SELECT session_id, e.id, deadline, session_owner FROM {{schema}}.enter_epoch(new_epoch) e;
END $$;

-- Notifies the observers of a queue that it has changed: that of an election. Those of locks are too many for that.
CREATE OR REPLACE FUNCTION {{schema}}.notify_observers(of_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF starts_with(of_name, 'election/') THEN
		PERFORM pg_notify('goverse_queues', of_name);
	END IF;
END $$;

-- Grants what can be granted of a name, whose row the caller has locked: the claim with the first place, or all shared
-- ones before the first exclusive one. So the granted claims are always those with the first places: one exclusive, or
-- shared ones.
CREATE OR REPLACE FUNCTION {{schema}}.grant_first(of_name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	head {{schema}}.claim;
	c {{schema}}.claim;
	t bigint;
BEGIN
	SELECT * INTO head FROM {{schema}}.claim k WHERE k.name = of_name ORDER BY k.place LIMIT 1;
	IF head.token IS NOT NULL AND NOT head.shared THEN
		RETURN;
	END IF;
	FOR c IN SELECT * FROM {{schema}}.claim WHERE name = of_name AND token IS NULL ORDER BY place LOOP
		EXIT WHEN NOT c.shared AND c.place <> head.place;
		IF t IS NULL THEN
			SELECT greatest(n.token, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1) INTO t
				FROM {{schema}}.name n WHERE n.name = of_name;
			EXIT WHEN t IS NULL; -- the name's row was deleted; settle_name makes it again
		END IF;
		t := t + 1;
		UPDATE {{schema}}.claim SET token = t WHERE name = of_name AND place = c.place;
		PERFORM pg_notify('goverse_' || c.session, c.seq::text);
		EXIT WHEN NOT c.shared;
	END LOOP;
	IF t IS NOT NULL THEN
		UPDATE {{schema}}.name SET token = t WHERE name = of_name;
	END IF;
END $$;

-- Deletes the claims of sessions that have ended, and grants what can be granted. It waits for no lock: a claim that a
-- transaction has locked as its fence stays until a later call, and so does a name that another one has locked.
CREATE OR REPLACE FUNCTION {{schema}}.settle_name(of_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM {{schema}}.name WHERE name = of_name FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		IF EXISTS (SELECT 1 FROM {{schema}}.name WHERE name = of_name) THEN
			RETURN;
		END IF;
		INSERT INTO {{schema}}.name (name, places, token, used) -- its row was deleted
			SELECT of_name, coalesce(max(c.place), 0), coalesce(max(c.token), 0), clock_timestamp()
			FROM {{schema}}.claim c WHERE c.name = of_name ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			RETURN;
		END IF;
	END IF;
	DELETE FROM {{schema}}.claim d WHERE d.name = of_name AND d.place IN (
		SELECT c.place FROM {{schema}}.claim c
		WHERE c.name = of_name AND NOT EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = c.session)
		FOR UPDATE OF c SKIP LOCKED);
	IF EXISTS (SELECT 1 FROM {{schema}}.epoch WHERE open AND started = pg_postmaster_start_time()) THEN
		PERFORM {{schema}}.grant_first(of_name);
	END IF;
	PERFORM {{schema}}.notify_observers(of_name);
END $$;

-- Reports whether settle_name has something to do at the head of a name's queue: up to the first claim that waits,
-- however many wait behind it.
CREATE OR REPLACE FUNCTION {{schema}}.unsettled(of_name text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
	w {{schema}}.claim;
BEGIN
	SELECT * INTO w FROM {{schema}}.claim c WHERE c.name = of_name AND c.token IS NULL ORDER BY c.place LIMIT 1;
	RETURN w.place IS NOT NULL AND (
		EXISTS (SELECT 1 FROM {{schema}}.claim c WHERE c.name = of_name AND c.place <= w.place
			AND NOT EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = c.session))
		OR NOT EXISTS (SELECT 1 FROM {{schema}}.claim b
			WHERE b.name = of_name AND b.place < w.place AND NOT (b.shared AND w.shared)));
END $$;

-- Settles some names that have claims of sessions that have ended, in order. It returns the number of names.
CREATE OR REPLACE FUNCTION {{schema}}.settle_ended(at_most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	of_name text;
BEGIN
	FOR of_name IN SELECT DISTINCT c.name FROM {{schema}}.claim c
		WHERE NOT EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = c.session) ORDER BY 1 LIMIT at_most LOOP
		PERFORM {{schema}}.settle_name(of_name);
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;

-- Ends a session whose counter is still seen_beat, if its connection has ended or forced is set. It returns what it found:
-- ended, alive (its connection holds the advisory lock), or changed.
CREATE OR REPLACE FUNCTION {{schema}}.end_session(session_id bigint, seen_beat bigint, forced boolean) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	IF NOT forced AND NOT pg_try_advisory_xact_lock_shared(session_id) THEN
		RETURN 'alive';
	END IF;
	PERFORM 1 FROM {{schema}}.session WHERE id = session_id AND beat = seen_beat FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN 'changed';
	END IF;
	DELETE FROM {{schema}}.session WHERE id = session_id;
	RETURN 'ended';
END $$;

-- Settles the claims of a session that its own process has ended, and that has no row any more.
CREATE OR REPLACE FUNCTION {{schema}}.settle_left(session_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	of_name text;
BEGIN
	FOR of_name IN SELECT DISTINCT c.name FROM {{schema}}.claim c WHERE c.session = session_id ORDER BY 1 LOOP
		PERFORM 1 FROM {{schema}}.name WHERE name = of_name FOR UPDATE;
		PERFORM {{schema}}.settle_name(of_name);
	END LOOP;
END $$;

-- Deletes names that have not been claimed for an hour, among at_most after a name. It returns the last name that it
-- looked at, '' if there are no more, and the number of those deleted. A name whose token is ahead of the clock stays:
-- token_floor would put all names ahead.
CREATE OR REPLACE FUNCTION {{schema}}.forget_names(after text, at_most integer, OUT last text, OUT deleted integer)
LANGUAGE plpgsql AS $$
DECLARE
	n {{schema}}.name;
	seen integer := 0;
	floor_token bigint := 0;
BEGIN
	last := '';
	deleted := 0;
	FOR n IN SELECT * FROM {{schema}}.name WHERE name > after ORDER BY name LIMIT at_most LOOP
		last := n.name;
		seen := seen + 1;
		CONTINUE WHEN n.used > clock_timestamp() - interval '1 hour';
		PERFORM 1 FROM {{schema}}.name WHERE name = n.name FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND OR EXISTS (SELECT 1 FROM {{schema}}.claim c WHERE c.name = n.name);
		DELETE FROM {{schema}}.name d WHERE d.name = n.name AND d.used = n.used
			AND d.token <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint RETURNING d.* INTO n;
		IF FOUND THEN
			deleted := deleted + 1;
			floor_token := greatest(floor_token, n.token);
		END IF;
	END LOOP;
	IF seen < at_most THEN
		last := '';
	END IF;
	UPDATE {{schema}}.setting SET token_floor = floor_token WHERE token_floor < floor_token;
END $$;

-- Carries out the requests of one session, in their order, which is by name. A request may be sent again with its number.
-- kind is acquire, try or release; outcome is granted, waiting, refused, released, or fenced: a transaction holds the claim.
CREATE OR REPLACE FUNCTION {{schema}}.apply(session_id bigint, kinds text[], names text[], seqs bigint[], shareds boolean[])
RETURNS TABLE (seq bigint, outcome text, token bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	may_grant boolean;
	c {{schema}}.claim;
	p bigint;
	t bigint;
BEGIN
	SELECT e.open INTO may_grant FROM {{schema}}.session s, {{schema}}.epoch e
		WHERE s.id = session_id AND e.id = s.epoch AND e.started = pg_postmaster_start_time();
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the session has ended' USING ERRCODE = 'GV001';
	END IF;
	FOR i IN 1 .. cardinality(kinds) LOOP
		apply.seq := seqs[i];
		apply.token := NULL;
		IF kinds[i] = 'release' THEN
			PERFORM 1 FROM {{schema}}.name WHERE name = names[i] FOR UPDATE;
			SELECT * INTO c FROM {{schema}}.claim k WHERE k.session = session_id AND k.seq = seqs[i] FOR UPDATE SKIP LOCKED;
			IF FOUND THEN
				DELETE FROM {{schema}}.claim k WHERE k.name = c.name AND k.place = c.place;
				IF may_grant THEN
					PERFORM {{schema}}.grant_first(names[i]);
				END IF;
				PERFORM {{schema}}.notify_observers(names[i]);
				apply.outcome := 'released';
			ELSIF EXISTS (SELECT 1 FROM {{schema}}.claim k WHERE k.session = session_id AND k.seq = seqs[i]) THEN
				apply.outcome := 'fenced';
			ELSE
				apply.outcome := 'released';
			END IF;
			RETURN NEXT;
			CONTINUE;
		END IF;
		INSERT INTO {{schema}}.name AS n (name, places, token, used)
			VALUES (names[i], 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, clock_timestamp())
			ON CONFLICT (name) DO UPDATE SET places = n.places + 1, token = greatest(n.token + 1, excluded.token),
				used = excluded.used
			RETURNING n.places, n.token INTO p, t;
		IF p = 1 THEN -- the name is new, or its row was deleted
			UPDATE {{schema}}.name n SET token = greatest(n.token, x.floor + 1), places = x.places + 1
				FROM (SELECT greatest((SELECT s.token_floor FROM {{schema}}.setting s), max(k.token)) AS floor,
					coalesce(max(k.place), 0) AS places FROM {{schema}}.claim k WHERE k.name = names[i]) x
				WHERE n.name = names[i] RETURNING n.places, n.token INTO p, t;
		END IF;
		SELECT * INTO c FROM {{schema}}.claim k WHERE k.session = session_id AND k.seq = seqs[i];
		IF NOT FOUND THEN
			IF NOT may_grant OR EXISTS (SELECT 1 FROM {{schema}}.claim k WHERE k.name = names[i]
				AND NOT (shareds[i] AND k.shared AND k.token IS NOT NULL)) THEN
				t := NULL;
			END IF;
			INSERT INTO {{schema}}.claim (name, place, session, seq, shared, token)
				VALUES (names[i], p, session_id, seqs[i], shareds[i], t) RETURNING * INTO c;
			IF t IS NULL AND may_grant AND {{schema}}.unsettled(names[i]) THEN
				PERFORM {{schema}}.settle_name(names[i]);
				SELECT * INTO c FROM {{schema}}.claim k WHERE k.session = session_id AND k.seq = seqs[i];
			END IF;
		END IF;
		apply.token := c.token;
		IF c.token IS NOT NULL THEN
			apply.outcome := 'granted';
		ELSIF kinds[i] = 'try' THEN
			DELETE FROM {{schema}}.claim k WHERE k.name = c.name AND k.place = c.place;
			apply.outcome := 'refused';
		ELSE
			apply.outcome := 'waiting';
		END IF;
		PERFORM {{schema}}.notify_observers(names[i]);
		RETURN NEXT;
	END LOOP;
END $$;

-- The first epoch is open from its beginning, because there were no sessions before the tables. Where a standby was ever
-- promoted, there may have been: on the former primary, in tables that were not replicated. A promotion raises the number
-- of the timeline, with which the names of WAL files begin.
DO $$
DECLARE
	first_timeline boolean := false;
BEGIN
	INSERT INTO {{schema}}.setting DEFAULT VALUES ON CONFLICT DO NOTHING;
	IF FOUND THEN
		BEGIN
			first_timeline := starts_with(pg_walfile_name(pg_current_wal_lsn()), '00000001');
		EXCEPTION WHEN others THEN
			NULL; -- not every service in PostgreSQL's place has WAL files
		END;
		INSERT INTO {{schema}}.epoch (id, started, open) VALUES (1, pg_postmaster_start_time(), first_timeline)
			ON CONFLICT DO NOTHING;
	END IF;
	UPDATE {{schema}}.setting SET release = {{release}};
END $$;
