-- Ring 4 of the fence: every test rejects writes that the store must never make, from any code.
--
-- The checks run when the transaction commits, and see everything that committed before: also a
-- takeover between the write and its commit.

CREATE FUNCTION guard_token(id INT) RETURNS BIGINT LANGUAGE sql VOLATILE AS
    'SELECT l.fencing_token FROM submitter_lease l WHERE l.submitter_id = id';

-- An account comes from another ledger, with all its rows, in this transaction.
CREATE FUNCTION guard_arrives(id INT) RETURNS BOOLEAN LANGUAGE sql VOLATILE AS
    'SELECT EXISTS (SELECT FROM account_arrival a
                     WHERE a.submitter_id = id
                       AND a.xmin::TEXT::BIGINT
                           = pg_current_xact_id()::TEXT::BIGINT & 4294967295)';

CREATE FUNCTION guard_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'guard: % deletes a row of the ledger', TG_TABLE_NAME;
    END IF;
    IF TG_OP = 'INSERT' AND guard_arrives(NEW.submitter_id) THEN
        RETURN NULL;
    END IF;
    -- The signed bytes of a settled transaction are erased.
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'tx_attempt'
       AND to_jsonb(NEW) - 'raw_tx' = to_jsonb(OLD) - 'raw_tx'
       AND to_jsonb(NEW) ->> 'raw_tx' IS NULL
       AND EXISTS (SELECT FROM managed_tx t
                     JOIN submitter_settled d ON d.submitter_id = t.submitter_id
                    WHERE t.submitter_id = NEW.submitter_id
                      AND t.tx_id = (to_jsonb(NEW) ->> 'tx_id')::UUID
                      AND t.terminal_at IS NOT NULL AND t.nonce < d.erased_below) THEN
        RETURN NULL;
    END IF;
    IF NEW.fencing_token IS DISTINCT FROM guard_token(NEW.submitter_id) THEN
        RAISE EXCEPTION 'guard: % writes for submitter % under token %, the live token is %',
            TG_TABLE_NAME, NEW.submitter_id, NEW.fencing_token, guard_token(NEW.submitter_id);
    END IF;
    RETURN NULL;
END $$;

-- A transaction row may also be an intent: queued by a caller, or cancelled while it is queued and
-- never had a nonce.
CREATE FUNCTION guard_tx() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE events BIGINT;
BEGIN
    -- A final transaction is archived: its events go, and with them its call data and labels.
    IF TG_OP = 'UPDATE' AND NEW.trimmed_at IS NOT NULL AND NEW.terminal_at IS NOT NULL
       AND to_jsonb(NEW) - '{trimmed_at,archived_at,data,labels}'::TEXT[]
           = to_jsonb(OLD) - '{trimmed_at,archived_at,data,labels}'::TEXT[]
       AND (NEW.archived_at IS NOT NULL
            OR (NEW.data, NEW.labels) IS NOT DISTINCT FROM (OLD.data, OLD.labels)) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'guard: a transaction is deleted';
    ELSIF TG_OP = 'INSERT' THEN
        IF NOT (NEW.state = 'QUEUED' AND NEW.version = 1
                AND NEW.nonce IS NULL AND NEW.fencing_token = 0)
           AND NOT guard_arrives(NEW.submitter_id) THEN
            RAISE EXCEPTION 'guard: transaction % is inserted as % with version %',
                NEW.tx_id, NEW.state, NEW.version;
        END IF;
    ELSIF NOT (OLD.state = 'QUEUED' AND NEW.state = 'CANCELLED' AND NEW.nonce IS NULL
               AND OLD.requeued = 0 AND NEW.version = OLD.version + 1
               AND NEW.fencing_token = OLD.fencing_token
               AND NEW.restored >= OLD.restored
               AND NEW.executed = CASE WHEN NEW.restored THEN 'UNKNOWN' ELSE 'NO' END)
          -- approved, denied or expired
          AND NOT (OLD.state = 'QUEUED' AND OLD.approval = 'WAITING' AND NEW.nonce IS NULL
                   AND OLD.requeued = 0 AND NEW.version = OLD.version + 1
                   AND NEW.fencing_token = OLD.fencing_token
                   AND (NEW.state = 'QUEUED' AND NEW.approval = 'APPROVED'
                        OR NEW.state = 'FAILED_FINAL' AND NEW.approval = 'WAITING'
                           AND NEW.restored >= OLD.restored
                           AND NEW.executed = CASE WHEN NEW.restored THEN 'UNKNOWN'
                                                   ELSE 'NO' END))
          AND NEW.fencing_token IS DISTINCT FROM guard_token(NEW.submitter_id) THEN
        RAISE EXCEPTION 'guard: transaction % goes from % to % under token %, the live token is %',
            NEW.tx_id, OLD.state, NEW.state, NEW.fencing_token, guard_token(NEW.submitter_id);
    END IF;
    IF TG_OP = 'UPDATE'
       AND (NEW.request_id, NEW.request_hash, NEW.queue_seq, NEW.value, NEW.data,
            NEW.gas_limit, NEW.labels)
           IS DISTINCT FROM
           (OLD.request_id, OLD.request_hash, OLD.queue_seq, OLD.value, OLD.data,
            OLD.gas_limit, OLD.labels) THEN
        RAISE EXCEPTION 'guard: the request of transaction % is changed', NEW.tx_id;
    END IF;
    -- A transaction that was executed before a requeue has the nonce again that it gave up, also if
    -- it was final there.
    IF EXISTS (SELECT FROM nonce_gap g
                WHERE g.submitter_id = NEW.submitter_id
                  AND NEW.nonce BETWEEN g.first_nonce AND g.last_nonce
                  AND (g.tx_id IS DISTINCT FROM NEW.tx_id
                       OR NEW.receipt_tx_hash IS NULL AND OLD.nonce IS NULL
                          AND OLD.ended_block IS NULL)) THEN
        RAISE EXCEPTION 'guard: transaction % has nonce %, which is recorded as a gap',
            NEW.tx_id, NEW.nonce;
    END IF;
    SELECT count(*) INTO events FROM tx_event e
     WHERE e.submitter_id = NEW.submitter_id AND e.tx_id = NEW.tx_id AND e.seq <= NEW.version;
    IF events <> NEW.version THEN
        RAISE EXCEPTION 'guard: transaction % has version % and % events',
            NEW.tx_id, NEW.version, events;
    END IF;
    RETURN NULL;
END $$;

-- An event may also belong to an intent.
CREATE FUNCTION guard_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE tx managed_tx;
BEGIN
    -- A ledger that was moved: numbers of another server become older than any of this one.
    IF TG_OP = 'UPDATE' AND NEW.xid = '3' AND to_jsonb(NEW) - 'xid' = to_jsonb(OLD) - 'xid' THEN
        RETURN NULL;
    END IF;
    -- The transaction was archived.
    IF TG_OP = 'DELETE' AND EXISTS (
        SELECT FROM managed_tx t
         WHERE t.submitter_id = OLD.submitter_id AND t.tx_id = OLD.tx_id
           AND t.terminal_at IS NOT NULL AND t.trimmed_at IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'guard: an event is changed';
    END IF;
    -- An event of an account is written by whoever sees its balance.
    IF NEW.kind = 'LOW_BALANCE' AND NEW.fencing_token = 0 AND NEW.state = ''
       AND EXISTS (SELECT FROM account_balance b
                    WHERE b.submitter_id = NEW.submitter_id AND b.events >= NEW.seq)
       AND (NEW.seq = 1 OR EXISTS (
           SELECT FROM tx_event e
            WHERE e.submitter_id = NEW.submitter_id AND e.tx_id = NEW.tx_id
              AND e.seq = NEW.seq - 1)) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO tx FROM managed_tx t
     WHERE t.submitter_id = NEW.submitter_id AND t.tx_id = NEW.tx_id;
    IF tx.version IS NULL OR tx.version < NEW.seq THEN
        RAISE EXCEPTION 'guard: event % of transaction % has no move', NEW.seq, NEW.tx_id;
    END IF;
    IF guard_arrives(NEW.submitter_id) THEN
        RETURN NULL;
    END IF;
    IF NEW.fencing_token = 0
       AND (NEW.seq = 1 AND NEW.kind = 'QUEUED'
            OR NEW.kind = 'CANCELLED' AND tx.state = 'CANCELLED' AND tx.version = NEW.seq
               AND tx.nonce IS NULL
            OR NEW.kind = 'APPROVED' AND tx.approval = 'APPROVED'
            OR NEW.kind = 'FAILED' AND tx.state = 'FAILED_FINAL' AND tx.version = NEW.seq
               AND tx.approval = 'WAITING' AND tx.nonce IS NULL) THEN
        RETURN NULL;
    END IF;
    IF NEW.fencing_token IS DISTINCT FROM guard_token(NEW.submitter_id) THEN
        RAISE EXCEPTION 'guard: event % (%) of transaction % under token %, the live token is %',
            NEW.seq, NEW.kind, NEW.tx_id, NEW.fencing_token, guard_token(NEW.submitter_id);
    END IF;
    RETURN NULL;
END $$;

-- A cursor skips no nonce that is neither used nor recorded as a gap.
CREATE FUNCTION guard_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE first BIGINT; used BIGINT;
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'guard: the cursor of submitter % is deleted', OLD.submitter_id;
    END IF;
    first := CASE WHEN TG_OP = 'INSERT' THEN NEW.init_nonce ELSE OLD.next_nonce END;
    SELECT (SELECT count(*) FROM managed_tx t
             WHERE t.submitter_id = NEW.submitter_id
               AND t.nonce >= first AND t.nonce < NEW.next_nonce)
         + (SELECT coalesce(sum(least(g.last_nonce, NEW.next_nonce - 1)
                                - greatest(g.first_nonce, first) + 1), 0)
              FROM nonce_gap g
             WHERE g.submitter_id = NEW.submitter_id
               AND g.last_nonce >= first AND g.first_nonce < NEW.next_nonce)
         + (SELECT count(*) FROM external_nonce x
             WHERE x.submitter_id = NEW.submitter_id
               AND x.nonce >= first AND x.nonce < NEW.next_nonce
               AND NOT EXISTS (SELECT FROM managed_tx t
                                WHERE t.submitter_id = x.submitter_id AND t.nonce = x.nonce))
      INTO used;
    IF used <> NEW.next_nonce - first THEN
        RAISE EXCEPTION
            'guard: the cursor of submitter % moves from % to %; % of these nonces are recorded',
            NEW.submitter_id, first, NEW.next_nonce, used;
    END IF;
    RETURN NULL;
END $$;

-- A request is an intent until its owner applies it. A refused ALLOCATE may be asked again.
CREATE FUNCTION guard_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- An answered one was archived. The nonce that its reservation was given is used.
    IF TG_OP = 'DELETE' AND OLD.kind NOT IN ('ALLOCATE', 'RESOLVE') AND OLD.applied_at IS NOT NULL
       AND EXISTS (SELECT FROM archive_lease l WHERE l.expires_at > clock_timestamp())
       AND EXISTS (SELECT FROM nonce_request g
                     JOIN external_nonce x ON x.submitter_id = g.submitter_id
                                          AND x.nonce = g.nonce AND x.state = 'ACCEPTED'
                    WHERE g.submitter_id = OLD.submitter_id AND g.kind = 'ALLOCATE'
                      AND g.reservation_id = OLD.reservation_id) THEN
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'guard: request % is deleted', OLD.request_no;
    ELSIF NEW.applied_at IS NULL AND NEW.nonce IS NULL
          AND (TG_OP = 'INSERT' OR OLD.kind = 'ALLOCATE' AND OLD.nonce IS NULL) THEN
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD
          OR TG_OP = 'INSERT' AND guard_arrives(NEW.submitter_id) THEN
        RETURN NULL;
    ELSIF NEW.fencing_token IS DISTINCT FROM guard_token(NEW.submitter_id) THEN
        RAISE EXCEPTION 'guard: request % is applied under token %, the live token is %',
            NEW.request_no, NEW.fencing_token, guard_token(NEW.submitter_id);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON nonce_request
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_request();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON external_nonce
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_row();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON nonce_hash
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_row();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON managed_tx
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_tx();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON tx_event
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_event();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON tx_attempt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_row();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON submitter_nonce_cursor
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_row();
CREATE CONSTRAINT TRIGGER guard_numbers AFTER INSERT OR UPDATE OR DELETE ON submitter_nonce_cursor
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_cursor();
CREATE CONSTRAINT TRIGGER guard AFTER INSERT OR UPDATE OR DELETE ON nonce_gap
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_row();
