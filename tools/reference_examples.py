"""The examples of docs/reference.md: one program, cut at the names of what each part shows."""

# --- open, Domain, Table, Relation, __version__

import maquette as mq

domain = mq.Domain.load("people.domain.json")  # names, lists and bounds: public
table = mq.open("people.csv", domain=domain)  # mq.Table: shows nothing of its rows
assert isinstance(table, mq.Table)
assert mq.Relation("add-remove") is mq.Relation.ADD_REMOVE
print(mq.__version__, domain.names, f"{domain.size:,} records are possible")

# --- draft, fit_report

first = mq.draft("people.csv")  # reads the rows: for the owner's eyes
assert not first.reviewed
report = mq.fit_report("people.csv", domain)  # NOT PRIVATE: exact counts
print(report.columns[0].overflow)

# --- discover

dropped = {name: "drop" for name in domain.names if name not in ("age", "sex")}
found = mq.discover(
    "people.csv",
    epsilon=1.0,
    delta=1e-6,
    ledger="found.ledger",
    total_epsilon=2.0,
    columns={"age": "number", **dropped},
)
print(found.domain["age"].bounds)

# --- Schema, Tables, LinkedRelease

region = {"attributes": [{"name": "region", "kind": "categorical", "categories": ["north", "south"]}]}
age = {"attributes": [{"name": "age", "kind": "ordinal", "size": 100}]}
households = {"name": "household", "key": "id", "domain": region}
persons = {"name": "person", "parent": "household", "refers": "household", "at_most": 5, "domain": age}
schema = mq.Schema.from_dict({"unit": "household", "tables": [households, persons]})
rows = {
    "household": {"id": [1, 2], "region": ["north", "south"]},
    "person": {"household": [1, 1, 2], "age": [40, 8, 71]},
}
linked = mq.open(rows, schema=schema)  # mq.Tables: a release protects a household
assert isinstance(linked, mq.Tables)
print(linked["person"].domain.names)
both = mq.release(linked, 2, epsilon=1.0, delta=1e-6, ledger="census.ledger", mechanism="residual")
assert isinstance(both, mq.LinkedRelease)
joined = "from person p join household h on p.household = h.id"
print(both.sql(f"select h.region, count(*) {joined} group by h.region"))

# --- marginals, points, prefixes, thresholds, ranges, boxes

tables = mq.marginals(domain, k=2)  # all tables over two columns
cells = mq.points(domain, ["region", "sex"])  # the cells of one table
at_most = mq.prefixes(domain, "age")  # all "at most this old"; also mq.thresholds
assert at_most == mq.thresholds(domain, "age")
between = mq.ranges(domain, "age")
listed = mq.boxes(domain, [{"age": (3, 7)}])  # by codes, both ends included

# --- where, union, weights, halfspaces, Queries

older = mq.where(domain, "age >= 60 and sex = 'female'")
workload = mq.union(tables, at_most, older)  # also tables + at_most + older
weighted = mq.weights(domain, [[0, 0.5, 1, 1]], attributes=["region"])
reach = mq.halfspaces(domain, ["age"], normals=[[1]], thresholds=[60])
assert isinstance(workload, mq.Queries)
print(workload.count, workload.text(0), workload.sensitivity(mq.Relation.ADD_REMOVE).l1)

# --- conjunctions, parities

bits = mq.Domain.from_dict({"attributes": [{"name": name, "kind": "ordinal", "size": 2} for name in "abc"]})
both = mq.conjunctions(bits, 2)  # one or two of the bits are 1
every = mq.conjunctions(bits)  # any number of them
odd = mq.parities(bits, ["a", "b", "c"])  # an odd number of a subset is 1

# --- plan, required

print(mq.plan(tables, n=20_000, epsilon=1.0, delta=1e-9))
print(mq.required(tables, alpha=0.01, epsilon=1.0, delta=1e-9)[0])

# --- release, Release, Answer, Certificate, load

release = mq.release(table, tables, epsilon=1.0, delta=1e-9, ledger="people.ledger", total_epsilon=9.0)
answer = release.answer("age >= 60 and sex = 'female'")  # free, like all questions to a release
assert isinstance(answer, mq.Answer)
assert isinstance(release.certificate, mq.Certificate)
print(answer.value, answer.error, release.certificate)
release.save("people.maquette")
again = mq.load("people.maquette")  # the same mq.Release
assert isinstance(again, mq.Release)

# --- evaluate

compared = mq.evaluate(release, table)  # NOT PRIVATE: true errors, for the owner
print(compared.groups[0].answers.largest)

# --- SmallDb

mechanism = mq.SmallDb(by="guaranteed")  # options of a mechanism go with it
small = mq.release(table, at_most, epsilon=0.5, delta=1e-9, mechanism=mechanism, ledger="people.ledger")
print(small.rows.num_rows)

# --- session, Session

session = mq.session(table, epsilon=0.5, delta=1e-9, alpha=0.05, ledger="people.ledger")
assert isinstance(session, mq.Session)
print(session.forecast("age >= 60").cost)  # nothing is paid
print(session.ask("age >= 60").value)

# --- Ledger, Budget

ledger = mq.Ledger.open("people.ledger")
budget = mq.Budget(1.0, 1e-9)  # for Ledger.create
print(ledger.left(), budget.total_units)

# --- choose, small_databases, grow

largest = mq.choose(table, mq.points(domain, ["region"]), epsilon=0.1, delta=1e-9, ledger=ledger)
proposals = mq.small_databases(release, sizes=[50, 200])  # of rows that were released: free
best = mq.choose(table, proposals, score="database", workload=older, epsilon=0.1, delta=1e-9, ledger=ledger)
grown = mq.grow(
    table,
    mq.marginals(domain, attributes=[("region", "sex")]),
    rows=8,
    epsilon=0.1,
    delta=1e-9,
    ledger=ledger,
)
print(largest, best.regret, grown)

# --- above_threshold, count_stream

stream = mq.above_threshold(table, threshold=1500, epsilon=0.1, delta=1e-9, ledger=ledger)
print(stream.ask("region = 'Coast'").above)
stream.close()
running = mq.count_stream(table, "age", epsilon=0.1, delta=1e-9, ledger=ledger)
print(running.error)

# --- synthesize, best_rule

made = mq.synthesize(domain, cells, [100.0] * cells.count, n=100.0 * cells.count)  # from any private counts
rule = mq.best_rule(release, ["age >= 20", "age >= 60"], label="sex = 'female'")
print(rule)

# --- vc_dimension, dimension_interval, fat_shattering_dimension, shatters

assert mq.vc_dimension(between).value == 2
assert mq.dimension_interval(between).high == 2
assert mq.fat_shattering_dimension([[0, 0], [0, 0.5], [0.5, 0], [0.5, 0.5]], "1/4").value == 2
assert mq.shatters(odd, [(1, 0, 0), (0, 1, 0), (1, 1, 0)]) == ()

# --- theory, lessons

facts = mq.theory.Facts(universe=65_536, shape="thresholds", log_queries=11.1)
print(mq.theory.smalldb.best(facts, n=100_000, epsilon=1.0, beta=0.05).alpha)
print(mq.lessons.exponential([12, 10, 9], [11, 10, 10], epsilon=1.0).worst)

# --- connect

try:
    service = mq.connect("http://127.0.0.1:9", token="mq_shown_once")
except mq.MaquetteError as away:  # nobody listens at this address
    print(away)
