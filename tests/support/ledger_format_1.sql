-- A ledger of format 1 as version 0.1.0 wrote it. Never edit: later versions must read it.
PRAGMA application_id = 1836149809;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE account (
	id INTEGER NOT NULL, 
	format INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	relation TEXT NOT NULL, 
	domain_fingerprint TEXT NOT NULL, 
	salt BLOB NOT NULL, 
	commitment TEXT, 
	total INTEGER NOT NULL, 
	spent INTEGER NOT NULL, 
	slack_total INTEGER NOT NULL, 
	slack_spent INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	head TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT account_one_row CHECK (id = 1), 
	CONSTRAINT account_never_overspent CHECK (spent BETWEEN 0 AND total), 
	CONSTRAINT account_slack_never_overspent CHECK (slack_spent BETWEEN 0 AND slack_total)
);
INSERT INTO "account" VALUES(1,1,'survey','rho','1.0','1e-06','add-remove','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',X'7BA592CFCF4211808F154C737389AC8F87B4276F49C7380F7C483243814F165E','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc',24353852684,5000000000,262638106806635,3,7,'c8e9c2b1ec8397579f86dfc27b4bc1e489ce6d288b9f0cccb35931889a0ad5f1');
CREATE TABLE entry (
	seq INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	parent TEXT, 
	tag TEXT NOT NULL, 
	request TEXT NOT NULL, 
	units INTEGER NOT NULL, 
	slack INTEGER NOT NULL, 
	envelope INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	payload_sha256 TEXT, 
	prev TEXT NOT NULL, 
	head TEXT NOT NULL, 
	created TEXT NOT NULL, 
	PRIMARY KEY (seq), 
	CONSTRAINT entry_kind CHECK (kind IN ('open', 'bind', 'reserve', 'answer', 'settle')), 
	CONSTRAINT entry_amounts CHECK (units >= 0 AND slack >= 0), 
	CONSTRAINT entry_once UNIQUE ("key", kind)
);
INSERT INTO "entry" VALUES(1,'open','',NULL,'','',24353852684,262638106806635,0,'{"delta":"1e-06","domain_fingerprint":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","epsilon":"1.0","format":1,"name":"survey","relation":"add-remove","salt_sha256":"650486d418d1e0889e4780daee1243298594ffb2db39c3195b22d73246399408","unit":"rho"}',NULL,'0000000000000000000000000000000000000000000000000000000000000000','522cd8be6da7894e336ba06089fbb7ba73ababb2626d9f4512b20942105fd8a9','2026-11-15T23:44:13.844+00:00');
INSERT INTO "entry" VALUES(2,'bind','',NULL,'','',0,0,0,'{"commitment":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"}',NULL,'522cd8be6da7894e336ba06089fbb7ba73ababb2626d9f4512b20942105fd8a9','f41b7a331b36c00a0c0044f16a5a8673c219802234d3f9de44b445212aa0d46a','2026-11-15T23:44:13.947+00:00');
INSERT INTO "entry" VALUES(3,'reserve','release',NULL,'composed','a4d451ec23463726f72c43d64c710968f6b602cd653b4de8adee1b556240a829',10000000000,7,1,'{"what":"release"}',NULL,'f41b7a331b36c00a0c0044f16a5a8673c219802234d3f9de44b445212aa0d46a','88ee3985b8b80193c493f6a2373929b32b243ce5451de09584f3a46edd626582','2026-11-15T23:44:13.988+00:00');
INSERT INTO "entry" VALUES(4,'reserve','release/1','release','gaussian','c216c692b188d45a9988a04cd5152ff172996d4045b4635eb061aeed856cd0a3',4000000000,3,0,'{"l2_squared":"2","sigma_squared":"25","tag":"gaussian","total_variation":"0"}',NULL,'88ee3985b8b80193c493f6a2373929b32b243ce5451de09584f3a46edd626582','b99f2236f2357c5ef0cb70e1769c7bde4ced6e4ae4991219f9d17413cd314d9a','2026-11-15T23:44:14.011+00:00');
INSERT INTO "entry" VALUES(5,'answer','release/1',NULL,'','',0,0,0,'{}','fa935cbca1691a98ec2f84cabb4f43c14a128f5a84664ca1fc0ce877ad8668d2','b99f2236f2357c5ef0cb70e1769c7bde4ced6e4ae4991219f9d17413cd314d9a','753066d6760f13cbdc22158297d7d23a1b05917e4cae818415d223322c859659','2026-11-15T23:44:14.018+00:00');
INSERT INTO "entry" VALUES(6,'settle','release',NULL,'','',6000000000,4,0,'{}',NULL,'753066d6760f13cbdc22158297d7d23a1b05917e4cae818415d223322c859659','bd62021968491feff9cfb7c13cde51e786ab3b84ac1e1d2640cd0fd9ea789777','2026-11-15T23:44:14.031+00:00');
INSERT INTO "entry" VALUES(7,'reserve','later',NULL,'selection','1d9283d848ea941ace1fe0d2378ef8b70056a0d4d1648b95a322d90163e78285',1000000000,0,0,'{"key":"later"}',NULL,'bd62021968491feff9cfb7c13cde51e786ab3b84ac1e1d2640cd0fd9ea789777','c8e9c2b1ec8397579f86dfc27b4bc1e489ce6d288b9f0cccb35931889a0ad5f1','2026-11-15T23:44:14.042+00:00');
CREATE TABLE payload (
	"key" TEXT NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "payload" VALUES('release/1',X'789CCBCBCF2CAE5448CE2FCD2B2906001FBC04EF');
CREATE INDEX entry_parent ON entry (parent);
CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER payload_no_update BEFORE UPDATE ON payload BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER payload_no_delete BEFORE DELETE ON payload BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER account_no_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER account_fixed BEFORE UPDATE OF id, format, name, unit, epsilon, delta, relation, domain_fingerprint, salt, total, slack_total ON account BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
