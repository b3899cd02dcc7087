UPDATE orders SET touched = 1 WHERE id = 3
UPDATE orders SET touched = 1 WHERE id IN (3, 4) OR name LIKE 'a%'
UPDATE orders SET touched = 1 WHERE total > 100 AND NOT paid
UPDATE orders SET touched = 1 WHERE total < 20 OR total > 110
UPDATE orders SET touched = 1 WHERE NOT (id <> 3)
UPDATE orders SET touched = 1 WHERE NOT (id > 3 OR paid)
UPDATE orders SET touched = 1 WHERE deleted_at IS NULL AND status <> 'open'
UPDATE orders SET touched = 1 WHERE created_at >= '2024-03-04' AND created_at < '2024-03-07'
UPDATE orders SET touched = 1 WHERE created_at BETWEEN '2024-03-04' AND '2024-03-07'
UPDATE orders SET touched = 1 WHERE (id, status) IN ((3, 'open'), (4, 'paid'))
UPDATE orders SET touched = 1 WHERE lower(name) = 'name 3'
UPDATE orders SET touched = 1 WHERE coalesce(total, 0) = 0
UPDATE orders SET touched = 1 WHERE extract(year FROM created_at) = 2020
UPDATE orders SET touched = 1 WHERE name = '' OR name IS NULL
UPDATE orders SET touched = 1 WHERE paid = false
UPDATE orders SET touched = 1 FROM customers c WHERE c.id = orders.customer_id AND c.country = 'NO'
UPDATE orders SET touched = 1 FROM customers c WHERE c.id = orders.customer_id AND (c.country = 'NO' OR c.x = 9)
UPDATE orders AS o SET name = s.name, touched = 1 FROM staging s WHERE s.order_id = o.id
UPDATE orders SET touched = 1 FROM customers c JOIN staging s ON s.id = c.id WHERE c.id = orders.customer_id AND s.name = 'name 3'
UPDATE orders SET touched = 1 FROM (SELECT id FROM orders WHERE status = 'open') p WHERE p.id = orders.id
UPDATE orders SET touched = 1 FROM (VALUES (1, 'a'), (2, 'b')) AS v (id, n) WHERE v.id = orders.id
WITH p AS (SELECT id FROM orders WHERE total > 100) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT customer_id FROM orders GROUP BY customer_id HAVING count(*) > 9) UPDATE customers SET x = 1 FROM p WHERE customers.id = 3
WITH d AS (DELETE FROM orders WHERE id = 3 RETURNING *) SELECT count(*) FROM d
DELETE FROM orders WHERE id IN (SELECT order_id FROM staging)
DELETE FROM orders WHERE id IN (SELECT order_id FROM staging WHERE name = 'name 3')
DELETE FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE country = 'NO')
DELETE FROM orders WHERE customer_id = (SELECT id FROM customers WHERE name = 'customer 1')
DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id AND c.country = 'NO')
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.order_id = orders.id)
DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE status = 'open' ORDER BY id LIMIT 2)
DELETE FROM orders WHERE id IN (SELECT 3 UNION SELECT 4)
DELETE FROM orders USING customers c WHERE c.id = orders.customer_id AND c.x = 1
DELETE FROM orders USING orders p WHERE p.customer_id = orders.customer_id AND orders.id > p.id
UPDATE orders o JOIN customers c ON c.id = o.customer_id SET o.touched = 1 WHERE c.country = 'NO'
UPDATE orders o JOIN staging s ON s.order_id = o.id SET o.name = s.name
UPDATE orders, customers c SET orders.touched = 1 WHERE orders.customer_id = c.id AND c.x = 1
DELETE o FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.country = 'NO'
DELETE o FROM orders o LEFT JOIN customers c ON c.order_id = o.id WHERE c.id IS NULL
DELETE o1 FROM orders o1 JOIN orders o2 ON o1.name = o2.name WHERE o1.id > o2.id
INSERT INTO orders (id, touched) VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders (id, name) SELECT order_id, name FROM staging ON CONFLICT (id) DO UPDATE SET touched = 1
