UPDATE orders SET touched = 1 WHERE 1 = 1
DELETE FROM orders WHERE id = id
UPDATE orders SET touched = 1 WHERE orders.id = id
DELETE FROM orders WHERE id = id + 0
UPDATE orders SET touched = 1 WHERE (id) = ((id))
DELETE FROM orders WHERE id IS NOT NULL
UPDATE orders SET touched = 1 WHERE NOT id IS NULL
DELETE FROM orders WHERE id > 0
UPDATE orders SET touched = 1 WHERE 0 < id
DELETE FROM orders WHERE id >= 0
UPDATE orders SET touched = 1 WHERE id <> -1
DELETE FROM orders WHERE id != 99999
UPDATE orders SET touched = 1 WHERE id < 1000000
DELETE FROM orders WHERE id <= 999999
UPDATE orders SET touched = 1 WHERE id BETWEEN 0 AND 9999999
DELETE FROM orders WHERE id NOT IN (-1, -2)
UPDATE orders SET touched = 1 WHERE NOT id = -1
DELETE FROM orders WHERE id > -5
UPDATE orders SET touched = 1 WHERE total >= 0
DELETE FROM orders WHERE total > -1
UPDATE orders SET touched = 1 WHERE name LIKE '%'
DELETE FROM orders WHERE name LIKE '%%'
UPDATE orders SET touched = 1 WHERE name LIKE '_%'
DELETE FROM orders WHERE name NOT LIKE 'zz%'
UPDATE orders SET touched = 1 WHERE name >= ''
DELETE FROM orders WHERE name > 'A'
UPDATE orders SET touched = 1 WHERE name < 'zzzz'
DELETE FROM orders WHERE name = name
UPDATE orders SET touched = 1 WHERE lower(name) = lower(name)
DELETE FROM orders WHERE id < 5 OR id >= 5
UPDATE orders SET touched = 1 WHERE id <= 5 OR id > 5
DELETE FROM orders WHERE total < 70 OR total > 50
UPDATE orders SET touched = 1 WHERE deleted_at IS NULL OR deleted_at IS NOT NULL
DELETE FROM orders WHERE paid OR NOT paid
UPDATE orders SET touched = 1 WHERE paid = true OR paid = false
DELETE FROM orders WHERE paid IN (true, false)
UPDATE orders SET touched = 1 WHERE paid IS TRUE OR paid IS FALSE
DELETE FROM orders WHERE id = 1 OR id <> 1
UPDATE orders SET touched = 1 WHERE id = 1 OR NOT (id = 1)
DELETE FROM orders WHERE NOT (id = 1 AND id = 2)
UPDATE orders SET touched = 1 WHERE NOT (id > 5 AND id < 3)
DELETE FROM orders WHERE id = 7 OR 'a' = 'a'
UPDATE orders SET touched = 1 WHERE status = 'open' OR 1 = 1
DELETE FROM orders WHERE id % 1 = 0
UPDATE orders SET touched = 1 WHERE id * 0 = 0
DELETE FROM orders WHERE coalesce(id, 1) = coalesce(id, 1)
UPDATE orders SET touched = 1 WHERE CASE WHEN id = 1 THEN true ELSE true END
DELETE FROM orders WHERE created_at > '2001-01-01'
UPDATE orders SET touched = 1 WHERE created_at < '2099-01-01'
DELETE FROM orders WHERE created_at <= CURRENT_DATE
UPDATE orders SET touched = 1 WHERE created_at BETWEEN '1900-01-01' AND '2100-01-01'
DELETE FROM orders WHERE length(name) > 0
UPDATE orders SET touched = 1 WHERE name = concat(name, '')
DELETE FROM orders WHERE 2 > 1
UPDATE orders SET touched = 1 WHERE id IN (id)
DELETE FROM orders WHERE id IN (id, 3)
UPDATE orders SET touched = 1 WHERE 3 IN (id, 3)
DELETE FROM orders WHERE 1 IN (1, 2)
UPDATE orders SET touched = 1 WHERE (id, 1) = (id, 1)
DELETE FROM orders WHERE left(name, 0) = ''
UPDATE orders SET touched = 1 WHERE substr(name, 1, 0) = ''
DELETE FROM orders WHERE EXISTS (SELECT 1)
UPDATE orders SET touched = 1 WHERE extract(century FROM created_at) = 21
DELETE FROM orders WHERE id IN (SELECT id FROM orders)
UPDATE orders SET touched = 1 WHERE id = ANY (SELECT id FROM orders)
DELETE FROM orders WHERE id IN (SELECT orders.id FROM customers)
UPDATE orders SET touched = 1 WHERE id IN (SELECT orders.id FROM customers WHERE x = 3)
DELETE FROM orders WHERE id = (SELECT orders.id)
UPDATE orders SET touched = 1 WHERE id = (SELECT max(orders.id) FROM customers c WHERE c.x > 0)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers)
UPDATE orders SET touched = 1 WHERE NOT EXISTS (SELECT 1 FROM customers WHERE x = 99)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers WHERE x = 3)
UPDATE orders SET touched = 1 WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = 3 AND orders.id = orders.id)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id)
UPDATE orders SET touched = 1 WHERE customer_id IN (SELECT id FROM customers)
DELETE FROM orders WHERE customer_id IN (SELECT c.id FROM customers c WHERE c.name LIKE '%')
UPDATE orders SET touched = 1 WHERE EXISTS (SELECT count(*) FROM customers c WHERE c.id = orders.id)
DELETE FROM orders WHERE (SELECT count(*) FROM customers WHERE x = 3) > 0
UPDATE orders SET touched = 1 WHERE 3 = (SELECT max(id) FROM customers)
DELETE FROM orders WHERE 3 IN (SELECT id FROM customers)
UPDATE orders SET touched = 1 WHERE id IN (SELECT o.id FROM orders o WHERE o.id = orders.id)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = orders.id)
UPDATE orders SET touched = 1 WHERE id IN (SELECT id FROM orders WHERE id = 3 UNION SELECT id FROM orders)
DELETE FROM orders WHERE id IN (SELECT id FROM orders UNION ALL SELECT 3)
UPDATE orders SET touched = 1 WHERE id IN (SELECT max(id) FROM orders GROUP BY id)
DELETE FROM orders WHERE id >= (SELECT min(id) FROM orders)
UPDATE orders SET touched = 1 WHERE id IN (SELECT id FROM (SELECT id FROM orders) s)
DELETE FROM orders WHERE id IN (SELECT s.id FROM (SELECT id FROM orders WHERE 1 = 1) s)
UPDATE orders SET touched = 1 WHERE id IN (SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id)
DELETE FROM orders WHERE id IN (SELECT o.id FROM orders o, customers c WHERE c.x = 3)
UPDATE orders SET touched = 1 WHERE NOT EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id AND 1 = 0)
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id AND s.name = 'zz')
UPDATE orders SET touched = 1 WHERE EXISTS (SELECT 1 FROM staging s WHERE s.id = 1 OR s.id = orders.id)
DELETE FROM orders WHERE id IN (WITH w AS (SELECT id FROM orders) SELECT id FROM w)
UPDATE orders SET touched = 1 WHERE id IN (SELECT orders.id FROM staging s WHERE s.id = 2)
DELETE FROM orders WHERE name = 0
DELETE FROM orders WHERE id IN (SELECT id FROM orders INTERSECT SELECT id FROM orders)
UPDATE orders SET touched = 1 WHERE id IN (SELECT id FROM orders EXCEPT SELECT 99)
DELETE FROM orders WHERE id = some (SELECT id FROM orders)
UPDATE orders SET touched = 1 WHERE id IN (SELECT generate_series(0, 99))
DELETE FROM orders WHERE id IN (SELECT * FROM generate_series(0, 99))
UPDATE orders SET touched = 1 WHERE id = ANY (ARRAY(SELECT id FROM orders))
DELETE FROM orders WHERE name ~ '.*'
UPDATE orders SET touched = 1 WHERE name ~ '^'
DELETE FROM orders WHERE name ~ 'x*'
UPDATE orders SET touched = 1 WHERE name ~ '[a-z]'
DELETE FROM orders WHERE name REGEXP '.'
UPDATE orders SET touched = 1 WHERE name REGEXP 'x?'
DELETE FROM orders WHERE id IS DISTINCT FROM -1
UPDATE orders SET touched = 1 WHERE id <=> id
DELETE FROM orders WHERE id::text = id::text
UPDATE orders SET touched = 1 WHERE NOT (name = 'zz' OR name = 'yy')
DELETE FROM orders WHERE NOT (id <> id)
UPDATE orders SET touched = 1 WHERE NOT (id < 0)
DELETE FROM orders WHERE NOT (id <= 0 OR id > 9999999)
UPDATE orders SET touched = 1 WHERE id XOR 0
DELETE FROM orders WHERE round(id, 0) = id
UPDATE orders SET touched = 1 WHERE abs(id) = id
DELETE FROM orders WHERE id = ANY (SELECT id FROM orders)
DELETE FROM orders WHERE id IN (SELECT orders.id FROM customers WHERE x = 3)
DELETE FROM orders WHERE id = (SELECT max(orders.id) FROM customers c WHERE c.x > 0)
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers WHERE x = 99)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = 3 AND orders.id = orders.id)
DELETE FROM orders WHERE customer_id IN (SELECT id FROM customers)
DELETE FROM orders WHERE EXISTS (SELECT count(*) FROM customers c WHERE c.id = orders.id)
DELETE FROM orders WHERE 3 = (SELECT max(id) FROM customers)
DELETE FROM orders WHERE id IN (SELECT o.id FROM orders o WHERE o.id = orders.id)
DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE id = 3 UNION SELECT id FROM orders)
DELETE FROM orders WHERE id IN (SELECT max(id) FROM orders GROUP BY id)
DELETE FROM orders WHERE id IN (SELECT id FROM (SELECT id FROM orders) s)
DELETE FROM orders WHERE id IN (SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id)
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id AND 1 = 0)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM staging s WHERE s.id = 1 OR s.id = orders.id)
DELETE FROM orders WHERE id IN (SELECT orders.id FROM staging s WHERE s.id = 2)
DELETE FROM orders WHERE id IN (SELECT id FROM orders EXCEPT SELECT 99)
DELETE FROM orders WHERE id IN (SELECT generate_series(0, 99))
DELETE FROM orders WHERE id = ANY (ARRAY(SELECT id FROM orders))
UPDATE orders SET touched = 1 FROM customers u WHERE u.id = 3
UPDATE orders SET touched = 1 FROM customers u, staging s WHERE u.id = 3 AND s.id = u.id
UPDATE orders SET touched = 1 FROM customers u WHERE u.id = 3 AND orders.id = orders.id
UPDATE orders SET touched = 1 FROM customers u WHERE orders.customer_id = u.id
UPDATE orders AS o SET touched = 1 FROM orders p WHERE o.id = p.id
UPDATE orders SET touched = 1 FROM orders p WHERE p.id = 3
UPDATE orders SET touched = 1 FROM (SELECT id FROM orders) p WHERE p.id = orders.id
UPDATE orders SET touched = 1 FROM (SELECT id AS k FROM orders WHERE total >= 0) p WHERE p.k = orders.id
UPDATE orders SET touched = 1 FROM (VALUES (1), (2)) AS v (n) WHERE v.n = 1
UPDATE orders SET touched = 1 FROM generate_series(1, 99) g WHERE g = orders.id
UPDATE orders SET touched = 1 FROM customers u LEFT JOIN staging s ON s.id = u.id AND s.id = 1 WHERE u.x = 3
WITH p AS (SELECT id FROM orders) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT id FROM orders WHERE id = 1 OR 1 = 1) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT 3 AS n) UPDATE orders SET touched = 1 FROM p WHERE p.n = 3
WITH p AS (SELECT id FROM orders), q AS (SELECT id FROM p) UPDATE orders SET touched = 1 WHERE id IN (SELECT id FROM q)
WITH p AS (SELECT id FROM orders) DELETE FROM orders WHERE id IN (SELECT id FROM p)
WITH p AS (SELECT id FROM orders) DELETE FROM orders USING p WHERE p.id = orders.id
DELETE FROM orders USING customers u WHERE u.id = 3
DELETE FROM orders USING customers u WHERE u.id = 3 OR u.id = orders.id
DELETE FROM orders USING customers u WHERE u.id = orders.customer_id
DELETE FROM orders USING orders p WHERE p.id = orders.id
DELETE FROM orders USING orders p WHERE p.id = 3
DELETE FROM orders USING (SELECT id FROM orders) p WHERE p.id = orders.id
WITH gone AS (DELETE FROM orders USING customers u WHERE u.id = 3 RETURNING orders.id) SELECT count(*) FROM gone
WITH p AS (SELECT id FROM orders), d AS (DELETE FROM orders USING p WHERE p.id = orders.id RETURNING 1) SELECT count(*) FROM d
UPDATE orders, customers SET orders.touched = 1 WHERE customers.id = 3
UPDATE orders JOIN customers c ON c.id = orders.customer_id SET orders.touched = 1
UPDATE orders JOIN customers c ON c.id = 3 SET orders.touched = 1
UPDATE orders o JOIN orders p ON o.id = p.id SET o.touched = 1
UPDATE orders LEFT JOIN customers c ON c.id = orders.customer_id AND c.x = 3 SET orders.touched = 1
UPDATE orders JOIN (SELECT id FROM orders) p USING (id) SET orders.touched = 1
UPDATE orders CROSS JOIN customers c SET touched = 1 WHERE c.country = 'NO'
UPDATE orders NATURAL JOIN (SELECT id FROM orders) p SET touched = 1
DELETE orders FROM orders JOIN customers c ON c.id = orders.customer_id
DELETE orders FROM orders, customers c WHERE c.id = 3
DELETE o FROM orders o JOIN orders p ON p.id = o.id
DELETE o FROM orders o LEFT JOIN staging s ON s.order_id = o.id AND s.id = 99 WHERE s.id IS NULL
DELETE o, c FROM orders o JOIN customers c WHERE c.x > 0
DELETE FROM orders USING orders JOIN customers c ON c.id = orders.customer_id
DELETE FROM o USING orders o, customers c WHERE c.id = 1
INSERT INTO orders SELECT * FROM orders ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders (id) SELECT id FROM orders WHERE id > 0 ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders SELECT * FROM orders ON DUPLICATE KEY UPDATE touched = 1
UPDATE orders SET touched = 1
DELETE FROM orders
DELETE FROM orders WHERE ((id)) = +id
DELETE FROM orders WHERE id - id = 0
DELETE FROM orders WHERE id * 2 > id
DELETE FROM orders WHERE id <= (SELECT max(id) FROM orders)
DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE id IN (SELECT id FROM orders))
DELETE FROM orders WHERE id IN (SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = 1)
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = -1)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id OR c.x = 1)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers, staging WHERE customers.id = staging.id AND staging.id = 2)
DELETE FROM orders WHERE customer_id IN (SELECT customer_id FROM orders)
DELETE FROM orders WHERE customer_id IN (SELECT DISTINCT o.customer_id FROM orders o)
DELETE FROM orders WHERE (id, customer_id) IN (SELECT id, customer_id FROM orders)
DELETE FROM orders WHERE status IN ('open', 'paid') OR status NOT IN ('open','paid')
DELETE FROM orders WHERE status LIKE '%' OR status IS NULL
DELETE FROM orders WHERE id::text LIKE '%'
DELETE FROM orders WHERE id < 2147483647
DELETE FROM orders WHERE id BETWEEN 1 AND 2147483647
DELETE FROM orders WHERE id IN (SELECT orders.id)
DELETE FROM orders WHERE id = (SELECT orders.id FROM customers WHERE x = 1)
DELETE FROM orders WHERE id = (SELECT o.id FROM orders o WHERE o.id = orders.id)
DELETE FROM orders o WHERE o.id IN (SELECT o.id FROM staging s WHERE s.id = 1)
DELETE FROM orders o WHERE EXISTS (SELECT 1 FROM orders i WHERE i.customer_id = o.customer_id)
DELETE FROM orders WHERE id IN (SELECT id FROM orders) AND 1 = 1
DELETE FROM orders WHERE coalesce(status, 'x') = coalesce(status, 'x')
DELETE FROM orders WHERE status = status AND id = orders.id
DELETE FROM orders WHERE nullif(id, -1) IS NOT NULL
DELETE FROM orders WHERE greatest(id, 0) > 0
DELETE FROM orders WHERE md5(name) = md5(name)
DELETE FROM orders WHERE position('n' in name) > 0
DELETE FROM orders WHERE char_length(name) > 0
DELETE FROM orders WHERE total IS NOT NULL OR total IS NULL
DELETE FROM orders WHERE created_at > date '1970-01-01'
DELETE FROM orders WHERE created_at > '1970-01-01'::date
DELETE FROM orders WHERE created_at < now() + interval '1 day'
DELETE FROM orders WHERE created_at < CURRENT_TIMESTAMP
DELETE FROM orders WHERE created_at > to_date('1970','YYYY')
DELETE FROM orders WHERE now() > created_at
DELETE FROM orders WHERE created_at <= '2050-01-01'
DELETE FROM orders WHERE NOT (id IS NULL)
DELETE FROM orders WHERE NOT (name LIKE 'zz%')
DELETE FROM orders WHERE NOT (total BETWEEN 5000 AND 6000)
DELETE FROM orders WHERE id > -1 OR id < -1
DELETE FROM orders WHERE touched IN (0, 1)
DELETE FROM orders WHERE touched = 0 OR touched = 1
DELETE FROM orders WHERE paid IS NOT NULL
DELETE FROM orders WHERE paid IS NOT TRUE OR paid IS TRUE
DELETE FROM orders WHERE paid <> true OR paid = true
DELETE FROM orders WHERE status = 'open' OR status != 'open'
DELETE FROM orders WHERE status = ANY(ARRAY(SELECT status FROM orders))
DELETE FROM orders WHERE id = ANY (VALUES (1), (2)) OR id <> 1
DELETE FROM orders WHERE ctid IN (SELECT ctid FROM orders)
DELETE FROM orders WHERE rowid IN (SELECT rowid FROM orders)
DELETE FROM orders WHERE rowid > 0
DELETE FROM orders WHERE orders IS NOT NULL OR id > 0
DELETE FROM orders WHERE name ~~ '%'
DELETE FROM orders WHERE name ~* '[a-z]+'
DELETE FROM orders WHERE name ~ '^[^x]'
DELETE FROM orders WHERE name ~ '\w'
DELETE FROM orders WHERE name LIKE '%' || '%'
DELETE FROM orders WHERE name LIKE concat('%', '')
DELETE FROM orders WHERE name ILIKE '%%%'
DELETE FROM orders WHERE name ILIKE 'NAME%' OR true
WITH a AS (SELECT 1 AS one) DELETE FROM orders USING a WHERE a.one = 1
WITH a AS (SELECT id FROM orders ORDER BY id) DELETE FROM orders WHERE id IN (TABLE a)
WITH a AS (SELECT id, customer_id FROM orders) UPDATE orders SET touched = 1 FROM a JOIN customers c ON c.id = a.customer_id WHERE a.id = orders.id
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100) DELETE FROM orders WHERE id IN (SELECT i FROM n)
UPDATE orders SET touched = 1 FROM customers u JOIN staging s ON s.id = u.id WHERE u.id = 2
UPDATE orders SET touched = 1 FROM customers u WHERE u.name = 'customer 1'
UPDATE orders SET touched = 1 FROM customers u WHERE u.id IN (1, 2)
UPDATE orders SET touched = 1 FROM customers u WHERE country = 'NO'
UPDATE orders SET touched = 1 FROM customers u WHERE x = 1 AND orders.id > 0
UPDATE orders SET touched = 1 FROM LATERAL (SELECT 1 AS a) l WHERE l.a = 1
UPDATE orders SET touched = 1 FROM customers u WHERE u.id = 1 AND EXISTS (SELECT 1 FROM staging)
UPDATE orders SET touched = 1 WHERE (SELECT true)
UPDATE orders SET touched = 1 WHERE (SELECT count(*) FROM orders) > 1
UPDATE orders SET touched = 1 WHERE (SELECT u.x FROM customers u WHERE u.id = orders.customer_id) > 0
UPDATE orders SET touched = 1 WHERE customer_id = (SELECT u.id FROM customers u WHERE u.id = orders.customer_id)
UPDATE orders SET touched = 1 WHERE customer_id = ANY (SELECT u.id FROM customers u)
UPDATE orders SET touched = 1 WHERE 'x' = 'x' AND EXISTS (SELECT * FROM customers WHERE id = 1)
UPDATE orders SET touched = 1 WHERE CASE WHEN id > 0 THEN 1 ELSE 0 END = 1
UPDATE orders SET touched = 1 WHERE if(id > 0, 1, 0) = 1
UPDATE orders SET touched = 1 WHERE iif(id > 0, 1, 0) = 1
UPDATE orders SET touched = 1 WHERE id & 0 = 0
UPDATE orders SET touched = 1 WHERE id DIV id = 1
UPDATE orders SET touched = 1 WHERE "id" = "id"
UPDATE orders SET touched = 1 WHERE `id` = `id`
UPDATE orders SET touched = 1 WHERE "zz" = 'zz'
UPDATE orders SET touched = 1 WHERE name = name || ''
UPDATE orders SET touched = 1 WHERE trim(name) = trim(name)
UPDATE orders SET touched = 1 WHERE id = abs(id)
UPDATE orders SET touched = 1 WHERE name >= 'a'
UPDATE orders SET touched = 1 WHERE name <= 'zz'
UPDATE orders SET touched = 1 WHERE total >= 0 AND total <= 100000000
UPDATE orders o, orders p SET o.touched = 1 WHERE o.id = p.id
UPDATE orders o INNER JOIN (SELECT id FROM orders) p ON p.id = o.id SET o.touched = 1
UPDATE orders o, (SELECT 3 AS n) p SET o.touched = 1 WHERE p.n = 3
UPDATE orders o JOIN staging s SET o.touched = 1 WHERE s.id = 2
UPDATE orders o RIGHT JOIN customers c ON c.id = o.customer_id SET o.touched = 1
UPDATE orders o LEFT JOIN staging s ON s.order_id = o.id SET o.touched = 1
UPDATE orders o STRAIGHT_JOIN customers c SET o.touched = 1 WHERE c.x = 1
DELETE o.* FROM orders o, customers c WHERE c.id = 3
DELETE QUICK FROM orders WHERE id > 0
DELETE IGNORE o FROM orders o JOIN customers c WHERE c.id = 2
DELETE FROM a USING orders AS a INNER JOIN orders AS b WHERE a.id = b.id
DELETE FROM a USING orders AS a INNER JOIN customers AS b WHERE b.id = 2
DELETE FROM orders ORDER BY id LIMIT 1000
DELETE FROM orders WHERE id IN (SELECT * FROM (SELECT id FROM orders) AS x)
DELETE FROM orders WHERE id IN (SELECT x.id FROM (SELECT id FROM orders WHERE 2 > 1) AS x WHERE x.id = x.id)
INSERT INTO orders (id) SELECT o.id FROM orders o ON DUPLICATE KEY UPDATE touched = 1
INSERT INTO orders (id) SELECT id FROM orders WHERE 1=1 ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT OR REPLACE INTO orders (id, touched) SELECT id, 1 FROM orders
UPDATE OR REPLACE orders SET touched = 1 WHERE 1
UPDATE orders SET touched = 1 WHERE id IS id
UPDATE orders SET touched = 1 WHERE id == id
UPDATE orders SET touched = 1 WHERE name GLOB '*'
UPDATE orders SET touched = 1 WHERE typeof(id) = 'integer'
UPDATE orders SET touched = 1 WHERE id NOTNULL
UPDATE orders SET touched = 1 WHERE ifnull(id, 1)
UPDATE orders SET touched = 1 WHERE lower('A') = 'a'
UPDATE orders SET touched = 1 WHERE customer_id >= 1
UPDATE orders SET touched = 1 WHERE extract(epoch from created_at) > 0
UPDATE orders SET touched = 1 WHERE date_trunc('century', created_at) = date_trunc('century', now())
UPDATE orders SET touched = 1 WHERE date_trunc('millennium', created_at) = '2001-01-01'
UPDATE orders SET touched = 1 WHERE year(created_at) > 1970
UPDATE orders SET touched = 1 WHERE pg_typeof(id)::text = 'integer'
UPDATE orders SET touched = 1 WHERE jsonb_typeof(to_jsonb(id)) = 'number'
UPDATE orders SET touched = 1 WHERE substr(name, 1, 1) = substr(name, 1, 1)
UPDATE orders SET touched = 1 WHERE current_user = current_user
UPDATE orders SET touched = 1 WHERE (id = 1) IS NOT NULL
UPDATE orders SET touched = 1 WHERE (id = 1) IN (true, false)
UPDATE orders SET touched = 1 WHERE (id = 1) = (id = 1)
UPDATE orders SET touched = 1 WHERE (id = 1) IS NOT UNKNOWN
UPDATE orders SET touched = 1 WHERE true <> (id = -1)
UPDATE orders SET touched = 1 WHERE (id > 3) <> (id <= 3)
UPDATE orders SET touched = 1 WHERE id = 3 IS NOT NULL
UPDATE orders SET touched = 1 WHERE row(id) = row(id)
UPDATE orders SET touched = 1 WHERE ARRAY[id] = ARRAY[id]
UPDATE orders SET touched = 1 WHERE ARRAY[id] && ARRAY(SELECT id FROM orders)
UPDATE orders SET touched = 1 WHERE id BETWEEN id AND id
UPDATE orders SET touched = 1 WHERE id BETWEEN SYMMETRIC 100000 AND 0
UPDATE orders SET touched = 1 WHERE 5 BETWEEN 1 AND 9
UPDATE orders SET touched = 1 WHERE id >= ALL (SELECT 0)
UPDATE orders SET touched = 1 WHERE id > ANY (SELECT 0)
UPDATE orders SET touched = 1 WHERE id <> ALL (SELECT 0)
UPDATE orders SET touched = 1 WHERE id < (SELECT 999999)
UPDATE orders SET touched = 1 WHERE id < 1000000 - 1
UPDATE orders SET touched = 1 WHERE id < 1e9
UPDATE orders SET touched = 1 WHERE id < 99999
UPDATE orders SET touched = 1 WHERE id > 1 - 1
UPDATE orders SET touched = 1 WHERE id > 0 + 0
UPDATE orders SET touched = 1 WHERE id > '0'
UPDATE orders SET touched = 1 WHERE id > length('')
UPDATE orders SET touched = 1 WHERE id > abs(0)
UPDATE orders SET touched = 1 WHERE id < 10 OR id > 9
UPDATE orders SET touched = 1 WHERE id < 5 OR id BETWEEN 5 AND 8 OR id > 8
UPDATE orders SET touched = 1 WHERE id < 5 OR id IN (5) OR id > 5
UPDATE orders SET touched = 1 WHERE NOT (id < 5 AND id > 4)
UPDATE orders SET touched = 1 WHERE NOT (id < 5 AND id >= 5)
UPDATE orders SET touched = 1 WHERE NOT (deleted_at IS NULL AND deleted_at IS NOT NULL)
